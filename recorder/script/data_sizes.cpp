#include "recorder/script/data_sizes.h"

#include "schema/operator_facts.h"

namespace whence::recorder::script {

namespace {

// True for operators whose results have a size that depends on the input's contents, not only on its shape.
bool has_data_size(const Node& node) {
  // where: only without values to choose from, which is nonzero. one_hot: only without a number of classes.
  if (node.target == "aten::where") return node.arguments.size() == 1;
  if (node.target == "aten::one_hot") {
    const Argument* classes = node.find("num_classes");
    const auto* number = classes ? classes->as<std::int64_t>() : nullptr;
    return number == nullptr || *number < 0;
  }
  if (node.target == "aten::tensor_split") return node.overload == "tensor_indices_or_sections";
  // repeat_interleave: only with a tensor of repeats.
  return facts_of(node.target).sizes == ResultSizes::content ||
         (node.target == "aten::repeat_interleave" && node.overload != "self_int");
}

// The axis along which such a result grows, or an operation cuts.
std::int64_t axis_argument(const Node& node) {
  if (node.target == "aten::one_hot") return -1;
  const Argument* axis = node.find("dim");
  const auto* number = axis ? axis->as<std::int64_t>() : nullptr;
  return number ? *number : 0;
}

// The one argument whose content decides the sizes of the results; empty where that of all arguments does.
std::string_view deciding_argument(const Node& node) {
  if (node.target == "aten::repeat_interleave") return "repeats";
  return {};
}

// The sizes that a reshape's call states, of which -1 is inferred from the number of elements. Null for one without.
const ArgumentList* stated_sizes(const Node& recorded) {
  for (const char* name : {"size", "shape"}) {
    const Argument* argument = recorded.find(name);
    if (const auto* sizes = argument ? argument->as<ArgumentList>() : nullptr) return sizes;
  }
  return nullptr;
}

// True if the size of a reshape's result does not depend on data: it is a number of the call, or it is inferred and the
// call names whatever sizes of the argument do, so that what is left for it does not: x.reshape(len(x), -1).
bool is_kept_by_reshape(const Node& recorded, const std::vector<Dim>* before, const std::vector<Dim>& after,
                        std::size_t axis) {
  const ArgumentList* sizes = stated_sizes(recorded);
  if (sizes == nullptr || sizes->size() != after.size()) return false;
  const auto* size = (*sizes)[axis].as<std::int64_t>();
  if (size == nullptr || *size >= 0 || before == nullptr) return size != nullptr && *size >= 0;
  std::multiset<std::int64_t> computed, of_data;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if ((*sizes)[i].as<std::int64_t>() == nullptr) computed.insert(after[i].size);
  }
  for (const Dim& dim : *before) {
    if (depends_on_data(dim)) of_data.insert(dim.size);
  }
  return computed == of_data;
}

}  // namespace

// The axis of the result on which masks in an index act; empty without a mask that depends on the input. Indices that
// stand side by side leave their axes in their place, others put them in front; a mask makes one axis.
std::optional<std::int64_t> DataSizes::axis_of_mask(const Node& node) const {
  if (node.target != "aten::index") return std::nullopt;
  const Argument* indices = node.find("indices");
  const auto* list = indices ? indices->as<ArgumentList>() : nullptr;
  bool masks = false, side_by_side = true, ended = false;
  std::int64_t before = 0, axes = 0;
  for (const Argument& index : list ? *list : ArgumentList()) {
    const auto* value = index.as<ValueRef>();
    if (value == nullptr) {
      before += axes == 0 ? 1 : 0;
      ended = axes > 0;
      continue;
    }
    side_by_side &= !ended;
    const Type& type = values_.type(value->id);
    const bool mask = type.dtype == DType::boolean || type.dtype == DType::uint8;
    masks |= mask && !known_.contains(value->id);
    axes = std::max<std::int64_t>(axes, mask || !type.dims ? 1 : static_cast<std::int64_t>(type.dims->size()));
  }
  if (!masks) return std::nullopt;
  return (side_by_side ? before : 0) + axes - 1;
}

// An operator that cuts a tensor into as many parts as an axis has room for.
bool DataSizes::decides_length(const Node& node) const {
  const auto* self = node.arguments.empty() ? nullptr : node.arguments.front().value.as<ValueRef>();
  if (self == nullptr || !facts_of(node.target).parts || node.overload == "sizes") return false;
  const Argument* argument = node.find("split_size");
  const auto* size = argument ? argument->as<ValueRef>() : nullptr;
  const auto from_sizes = [&](ValueId id) { return facts_.contains(id) && facts_.at(id).from_sizes; };
  if (size != nullptr && !known_.contains(size->id) && !from_sizes(size->id)) return true;
  const auto& dims = values_.type(self->id).dims;
  const auto facts = facts_.find(self->id);
  if (!dims || dims->empty() || facts == facts_.end() || !facts->second.data_shaped) return false;
  const std::int64_t axis = axis_argument(node), rank = static_cast<std::int64_t>(dims->size());
  const Dim& dim = (*dims)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  return depends_on_data(dim);
}

// Sizes of a result that do not change with the data: those that its operands have for certain, and numbers in the
// call.
std::set<std::int64_t> DataSizes::fixed_sizes(const std::vector<const Term*>& values, const Node& recorded) const {
  std::set<std::int64_t> fixed{1};
  for (const Term* term : values) {
    const auto& dims = values_.type(term->id).dims;
    for (const Dim& dim : dims ? *dims : std::vector<Dim>()) {
      if (dim.is_static() || dim.symbol != none_id) fixed.insert(dim.size);
    }
  }
  const std::function<void(const Argument&)> literals = [&](const Argument& argument) {
    if (const auto* number = argument.as<std::int64_t>()) fixed.insert(*number);
    if (const auto* list = argument.as<ArgumentList>()) std::ranges::for_each(*list, literals);
  };
  for (const NamedArgument& argument : recorded.arguments) literals(argument.value);
  return fixed;
}

// The sizes of the first argument; null unless it is a tensor of known rank.
const std::vector<Dim>* DataSizes::sizes_of_first(const Node& recorded) const {
  const auto* self = recorded.arguments.empty() ? nullptr : recorded.arguments.front().value.as<ValueRef>();
  if (self == nullptr) return nullptr;
  const auto& dims = values_.type(self->id).dims;
  return dims ? &*dims : nullptr;
}

// x[:100]: the sizes of x, since an axis that has fewer than 100 elements stays shorter. Null for other operators.
const std::vector<Dim>* DataSizes::cut_sizes(const Node& recorded) const {
  if (recorded.target != "aten::slice") return nullptr;
  const std::vector<Dim>* dims = sizes_of_first(recorded);
  if (dims == nullptr || recorded.outputs.size() != 1) return nullptr;
  const auto& result = values_.type(recorded.outputs.front()).dims;
  return result && dims->size() == result->size() ? dims : nullptr;
}

void DataSizes::mark(ValueId id) {
  const auto& dims = values_.type(id).dims;
  for (const Dim& dim : dims ? *dims : std::vector<Dim>()) {
    if (!depends_on_data(dim)) continue;
    facts_[id].data_shaped = true;
    sizes_.insert(dim.size);
  }
}

void DataSizes::mark_element(ValueId id) {
  auto& dims = values_.type(id).dims;
  if (!dims) return;
  for (Dim& dim : *dims) {
    if (dim.is_static() && sizes_.contains(dim.size)) dim = {dim.size, true, none_id};
  }
  mark(id);
}

void DataSizes::note_parts(const Node& recorded, const Seen& parts) {
  for (const auto& list : parts) {
    if (!list) continue;
    for (const c10::IValue& part : list->toListRef()) {
      if (recorded.target != "aten::unbind") note(part.toTensor().size(axis_argument(recorded)));
    }
  }
}

DataSizes::Arguments DataSizes::look_at(const std::vector<Term>& arguments) {
  Arguments found;
  const std::function<void(const Term&)> look = [&](const Term& term) {
    if (term.items) std::ranges::for_each(*term.items, look);
    if (!term.is_value()) return;
    found.values.push_back(&term);
    const bool fixed = known_.is_known(term) || facts_[term.id].from_sizes;
    found.settled &= fixed;
    found.data_shaped |= facts_[term.id].data_shaped;
    if (values_.type(term.id).kind != ValueKind::integer || fixed) return;
    found.data_number = true;
    if (term.seen[0] && term.seen[0]->isInt()) note(term.seen[0]->toInt());
  };
  std::ranges::for_each(arguments, look);
  return found;
}

// Repeats that a trace computed from sizes are a tensor there, but no data.
bool DataSizes::sizes_decide(const Node& recorded) const {
  const std::string_view name = deciding_argument(recorded);
  const Argument* argument = name.empty() ? nullptr : recorded.find(name);
  const auto* value = argument ? argument->as<ValueRef>() : nullptr;
  if (value == nullptr) return false;
  const auto facts = facts_.find(value->id);
  return known_.contains(value->id) || (facts != facts_.end() && facts->second.from_sizes);
}

void DataSizes::follow(const std::vector<Term>& arguments, const Node& recorded, const SizeProbe& probe) {
  const auto [values, settled, data_shaped, data_number] = look_at(arguments);
  const OperatorFacts& facts = facts_of(recorded.target);
  const bool shape_only = facts.shape_only >= 0 && recorded.target != "aten::type_as";
  const bool from_sizes = settled || (shape_only && !data_shaped);
  const bool joins = std::ranges::any_of(values, [](const Term* term) { return term->sequence; });
  const bool cuts = data_number && facts.sizes == ResultSizes::number;
  const auto mask = axis_of_mask(recorded);
  const bool produces = !settled && ((has_data_size(recorded) && !sizes_decide(recorded)) || mask || joins || cuts);
  const bool reshapes = data_shaped && facts.sizes == ResultSizes::same_count;
  const std::set<std::int64_t> fixed = produces ? std::set<std::int64_t>() : fixed_sizes(values, recorded);
  const std::vector<Dim>* before = reshapes ? sizes_of_first(recorded) : nullptr;
  const std::vector<Dim>* cut = data_number ? nullptr : cut_sizes(recorded);

  const bool probes = data_shaped && !data_number && !produces && cut == nullptr;
  const std::optional<ChangedSizes> changed = probes ? probe() : std::nullopt;

  for (std::size_t i = 0; i < recorded.outputs.size(); ++i) {
    const ValueId id = recorded.outputs[i];
    Type& type = values_.type(id);
    facts_[id].from_sizes = from_sizes;
    if (!produces && !data_shaped && !data_number) continue;
    if (type.kind != ValueKind::tensor || !type.dims) continue;
    const std::int64_t grows = mask ? *mask : axis_argument(recorded);
    const auto rank = static_cast<std::int64_t>(type.dims->size());
    const bool probed =
        changed && changed->size() == recorded.outputs.size() && (*changed)[i].size() == type.dims->size();
    const bool all = cuts && recorded.find("dim") == nullptr;  // aten::repeat
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      Dim& dim = (*type.dims)[static_cast<std::size_t>(axis)];
      const bool produced = produces && (all || axis == (grows < 0 ? grows + rank : grows));
      const bool kept = probed     ? !(*changed)[i][static_cast<std::size_t>(axis)]
                        : cut      ? !depends_on_data((*cut)[static_cast<std::size_t>(axis)])
                        : reshapes ? is_kept_by_reshape(recorded, before, *type.dims, static_cast<std::size_t>(axis))
                                   : fixed.contains(dim.size) && !sizes_.contains(dim.size);
      const bool depends = !produces && !kept;
      if (produced || depends) dim = {dim.size, true, none_id};
    }
    mark(id);
  }
}

}  // namespace whence::recorder::script
