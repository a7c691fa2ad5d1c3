#include "annotator/metadata/operation_ids.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "schema/flat_map.h"
#include "schema/json_text.h"
#include "schema/parse_number.h"

namespace whence::metadata {

namespace {

constexpr std::string_view size_prefix = "size.";

// Operators of equal meaning with different names, in traces, in torch.export's graphs and after decompositions. Also
// listed in docs/metadata-spec.md.
constexpr std::array<std::pair<std::string_view, std::string_view>, 36> canonical_names = {{
    {"_adaptive_avg_pool2d", "adaptive_avg_pool2d"},
    {"_adaptive_avg_pool3d", "adaptive_avg_pool3d"},
    {"_batch_norm_impl_index", "batch_norm"},
    {"_convolution", "convolution"},
    {"_log_softmax", "log_softmax"},
    {"_native_batch_norm_legit", "batch_norm"},
    {"_native_batch_norm_legit_no_training", "batch_norm"},
    {"_reshape_alias", "reshape"},
    {"_softmax", "softmax"},
    {"_to_copy", "to"},
    {"_unsafe_view", "reshape"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"conv1d", "convolution"},
    {"conv2d", "convolution"},
    {"conv3d", "convolution"},
    {"conv_transpose1d", "convolution"},
    {"conv_transpose2d", "convolution"},
    {"conv_transpose3d", "convolution"},
    {"cudnn_batch_norm", "batch_norm"},
    {"divide", "div"},
    {"expand_as", "expand"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"max_pool2d_with_indices", "max_pool2d"},
    {"multiply", "mul"},
    {"native_batch_norm", "batch_norm"},
    {"native_group_norm", "group_norm"},
    {"native_layer_norm", "layer_norm"},
    {"subtract", "sub"},
    {"swapaxes", "transpose"},
    {"true_divide", "div"},
    {"type_as", "to"},
    {"view", "reshape"},
}};
static_assert(std::ranges::is_sorted(canonical_names));

// Returns true if all results are numbers or int64 scalar tensors. The tracer records sizes as such tensors.
bool computes_sizes(const Program& program, const Node& node) {
  return !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](ValueId output) {
    const Type& type = program.values[output].type;
    if (type.kind != ValueKind::tensor) return is_scalar(type.kind);
    return type.dtype == DType::int64 && type.dims && type.dims->empty();
  });
}

struct Call {
  ScopeId scope;
  std::int32_t operator_index;

  bool operator==(const Call&) const = default;
};
struct CallHash {
  std::size_t operator()(const Call& call) const {
    return (static_cast<std::uint64_t>(call.scope.number()) << 32U | static_cast<std::uint32_t>(call.operator_index)) *
               0x9e3779b97f4a7c15U >>
           32U;
  }
};

}  // namespace

std::string canonical_operator(std::string_view target) {
  constexpr std::string_view aten = "aten::";
  if (!target.starts_with(aten)) return std::string(target);
  target.remove_prefix(aten.size());
  const bool writes_in_place = target.ends_with('_') && !target.ends_with("__");
  if (writes_in_place) target.remove_suffix(1);
  const auto found =
      std::ranges::lower_bound(canonical_names, target, {}, &decltype(canonical_names)::value_type::first);
  return std::string(found != canonical_names.end() && found->first == target ? found->second : target);
}

OperationIds::OperationIds(const Program& program, const std::vector<const Node*>& operations)
    : program_(program), operations_(operations) {
  FlatMap<std::string, std::int32_t> indices;
  tsl::robin_map<Call, std::int32_t, CallHash> counts;
  operator_of_.reserve(operations.size());
  ordinal_of_.reserve(operations.size());
  for (const Node* const node : operations) {
    std::string name =
        (computes_sizes(program, *node) ? std::string(size_prefix) : std::string()) + canonical_operator(node->target);
    const auto [entry, added] = indices.try_emplace(std::move(name), static_cast<std::int32_t>(operators_.size()));
    if (added) operators_.push_back(entry->first);
    operator_of_.push_back(entry->second);
    ordinal_of_.push_back(counts[{node->origin.scope, entry->second}]++);
  }
}

std::string OperationIds::id(std::int32_t op) const {
  const Scope& scope = program_.scopes[operations_[op]->origin.scope];
  return program_.modules[scope.module].path + "/" + std::to_string(scope.call) + "/" + operators_[operator_of_[op]] +
         "/" + std::to_string(ordinal_of_[op]);
}

std::optional<std::string> ids_text(std::vector<std::string> ids) {
  std::vector<std::string> distinct;
  FlatSet<std::string> seen;
  for (std::string& id : ids) {
    if (seen.insert(id).second) distinct.push_back(std::move(id));
  }
  if (distinct.empty()) return std::nullopt;
  return distinct.size() == 1 ? distinct.front() : json_text(nlohmann::json(distinct));
}

bool is_id(std::string_view text) {
  const auto take_last = [&] {
    const std::size_t slash = text.rfind('/');
    if (slash == std::string_view::npos) return std::string_view();
    const std::string_view part = text.substr(slash + 1);
    text.remove_suffix(part.size() + 1);
    return part;
  };
  return is_digits(take_last()) && !take_last().empty() && is_digits(take_last());
}

// Distinguishes them by the last character: an identity ends in a digit, an array in a bracket.
std::vector<std::string> parse_ids(std::string_view text) {
  if (text.empty()) return {};
  if (!text.ends_with(']')) return {std::string(text)};
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> ids;
  for (const auto& each : json.is_array() ? json : nlohmann::json::array()) {
    if (!each.is_string()) return {};
    ids.push_back(each.get<std::string>());
  }
  return ids;
}

}  // namespace whence::metadata
