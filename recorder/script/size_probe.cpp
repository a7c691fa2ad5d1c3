#include "recorder/script/size_probe.h"

#include "schema/operator_facts.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

constexpr std::int64_t most_elements = 1 << 20;  // a longer tensor may have

// Three times as long keeps what sizes have to do with each other where they are sums and multiples; 1 long shows a
// size that is the lesser of two.
enum class Change : std::uint8_t { lengthened, shortened };
constexpr std::int64_t factor = 3;  // the half of 1, rounded up, is that of 2

// Thrown for arguments that cannot be changed.
struct NotProbed : std::exception {};

class Probe {
 public:
  Probe(const Recording& recording, Change change) : recording_(recording), change_(change) {}

  // Changes the tensors of the argument that have a size which depends on data.
  c10::IValue changed(const Term& term, const c10::IValue& value) {
    if (term.is_value()) return value.isTensor() ? changed(term, value.toTensor()) : value;
    if (!term.items || term.items->empty()) return value;
    if (term.is_sequence()) throw NotProbed();
    if (value.isTensorList()) return changed(*term.items, c10::List<at::Tensor>(), value.toListRef());
    if (has_optional_tensors(value)) {
      return changed(*term.items, c10::List<std::optional<at::Tensor>>(), value.toListRef());
    }
    if (term.has_values()) throw NotProbed();
    return value;
  }

  bool any_changed() const { return any_changed_; }

 private:
  // Asked of the value itself, a list that scripted code made is not one: its type is another object.
  static bool has_optional_tensors(const c10::IValue& value) {
    return value.isList() && *value.toList().elementType() == *c10::getTypePtr<std::optional<at::Tensor>>();
  }

  template <class List>
  c10::IValue changed(const std::vector<Term>& items, List list, c10::ArrayRef<c10::IValue> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const c10::IValue element = changed(items.at(i), values[i]);
      list.push_back(element.to<typename List::value_type>());
    }
    return list;
  }

  at::Tensor changed(const Term& term, at::Tensor tensor) {
    const auto& dims = recording_.values.type(term.id).dims;
    if (!dims || static_cast<std::int64_t>(dims->size()) != tensor.dim()) return tensor;
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
      if (!depends_on_data((*dims)[static_cast<std::size_t>(axis)])) continue;
      tensor = change_ == Change::lengthened ? longer(tensor, axis) : shorter(tensor, axis);
      any_changed_ = true;
    }
    return tensor;
  }

  static at::Tensor longer(const at::Tensor& tensor, std::int64_t axis) {
    if (tensor.numel() > most_elements / factor) throw NotProbed();
    if (tensor.size(axis) > 0) return at::cat(std::vector<at::Tensor>(factor, tensor), axis);
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes[static_cast<std::size_t>(axis)] = factor;
    return at::zeros(sizes, tensor.options());
  }

  static at::Tensor shorter(const at::Tensor& tensor, std::int64_t axis) {
    return tensor.size(axis) > 0 ? tensor.narrow(axis, 0, 1) : tensor;
  }

  const Recording& recording_;
  Change change_;
  bool any_changed_ = false;
};

std::vector<std::vector<std::int64_t>> sizes_of(const std::vector<c10::IValue>& results) {
  std::vector<std::vector<std::int64_t>> sizes;
  const auto add = [&](const at::Tensor& tensor) { sizes.push_back(tensor.sizes().vec()); };
  for (const c10::IValue& result : results) {
    if (result.isTensor() && result.toTensor().defined()) add(result.toTensor());
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) add(tensor);
    }
  }
  return sizes;
}

// The sizes of the results of changed arguments.
std::optional<std::vector<std::vector<std::int64_t>>> probed_sizes(const Recording& recording, const Step& step,
                                                                   const std::vector<Term>& arguments, Change change) {
  auto stack = program::host_arguments(step.node, arguments, 0);
  if (!stack || stack->size() != arguments.size()) return std::nullopt;
  try {
    Probe probe(recording, change);
    for (std::size_t i = 0; i < arguments.size(); ++i) (*stack)[i] = probe.changed(arguments[i], (*stack)[i]);
    if (!probe.any_changed()) return std::nullopt;
    call_operator(step.node, *stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return sizes_of({stack->begin(), stack->end()});
}

bool may_be_probed(const Step& step, const std::vector<Term>& arguments) {
  return step.node.kind().is_aten() && !step.node.isNondeterministic() &&
         program::written_by(step.node, arguments).empty() && !facts_of(step.node.kind().toQualString()).recurrent;
}

}  // namespace

std::optional<ChangedSizes> changed_sizes(const Recording& recording, const Step& step,
                                          const std::vector<Term>& arguments, const std::vector<c10::IValue>& results) {
  if (!may_be_probed(step, arguments)) return std::nullopt;
  const auto sizes = sizes_of(results);
  ChangedSizes changed;
  for (const auto& each : sizes) changed.emplace_back(each.size(), false);
  for (const Change change : {Change::lengthened, Change::shortened}) {
    const auto probed = probed_sizes(recording, step, arguments, change);
    const bool fits = probed && std::ranges::equal(*probed, sizes, {}, &std::vector<std::int64_t>::size,
                                                   &std::vector<std::int64_t>::size);
    if (!fits && change == Change::lengthened) return std::nullopt;
    if (!fits) continue;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t axis = 0; axis < sizes[i].size(); ++axis) {
        if ((*probed)[i][axis] != sizes[i][axis]) changed[i][axis] = true;
      }
    }
  }
  return changed;
}

}  // namespace whence::recorder::script
