// V301: keys of whence that are malformed or contradict each other: written by hand, or by a tool that merged nodes.
// The node counts as unattributed if its module cannot be trusted.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/checks.h"
#include "schema/module_path.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;

namespace {

std::string problem_of_modules(std::string_view text, std::optional<std::string_view> module) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.size() < 2) return std::string(keys::modules) + " is not a JSON array of several names";
  for (const auto& entry : json) {
    if (!entry.is_string()) return std::string(keys::modules) + " contains an entry that is not a name";
    if (module && !at_or_below(entry.get<std::string>(), *module)) {
      return std::string(keys::modules) + " contains " + entry.get<std::string>() + ", which is not inside " +
             std::string(keys::module);
    }
  }
  return "";
}

std::string problem_of(const onnx_file::OnnxNode& node) {
  const auto stamp = find_property(node.metadata, keys::op);
  if (stamp && !origin::parse_stamp(*stamp)) return std::string(keys::op) + " is not a stamp: " + std::string(*stamp);
  const auto module = find_property(node.metadata, keys::module);
  const auto confidence = find_property(node.metadata, keys::confidence);
  if (confidence && !origin::parse_confidence(*confidence)) {
    return std::string(keys::confidence) + " is not one of the five confidences: " + std::string(*confidence);
  }
  if (module && module->find(keys::module_placeholder) != module->npos) {
    return std::string(keys::module) + " is " + std::string(*module) +
           ", as in a function of `whence functions`, whose call another tool inlined";
  }
  if (module && !confidence && !stamp) return std::string(keys::module) + " without " + std::string(keys::confidence);
  if (confidence && !module && *confidence != origin::name_of(origin::Confidence::unattributed)) {
    return std::string(keys::confidence) + " without " + std::string(keys::module);
  }
  if (confidence == origin::name_of(origin::Confidence::unattributed)) {
    for (const std::string_view key : {keys::module, keys::modules, keys::primary, keys::id}) {
      if (find_property(node.metadata, key)) return std::string(key) + " on an unattributed node";
    }
  }
  if (const auto id = find_property(node.metadata, keys::id)) {
    const auto ids = metadata::parse_ids(*id);
    if (ids.empty() || !std::ranges::all_of(ids, [](const std::string& each) { return metadata::is_id(each); })) {
      return std::string(keys::id) + " is neither an identity nor a JSON array of them";
    }
  }
  const auto primary = find_property(node.metadata, keys::primary);
  if (primary && !(module && at_or_below(*primary, *module))) {
    return std::string(keys::primary) + " is " + std::string(*primary) + ", which is not inside " +
           std::string(keys::module);
  }
  const auto modules = find_property(node.metadata, keys::modules);
  return modules ? problem_of_modules(*modules, module) : "";
}

std::vector<FindingItem> find_provenance_malformed(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    if (std::string problem = problem_of(*node); !problem.empty())
      items.push_back({shown_node(*node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_malformed_check = {
    {"V301", "provenance_malformed", "nodes with malformed or contradictory whence keys",
     "write the entries as docs/metadata-spec.md specifies, or run `whence strip` and `whence annotate` again",
     "The entries were written by hand, or by a tool that merged nodes. A module without a confidence counts as "
     "ancestor; a node whose module cannot be trusted counts as unattributed.",
     Severity::warning},
    find_provenance_malformed};

}  // namespace whence::validation
