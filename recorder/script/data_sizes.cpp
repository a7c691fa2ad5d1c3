#include "recorder/script/data_sizes.h"

namespace whence::recorder {

namespace {

// True for operators whose results have a size that depends on the input's contents, not only on its shape.
bool has_data_size(const Node& node) {
  static const std::unordered_set<std::string> names = {
      "aten::nonzero",
      "aten::argwhere",
      "aten::masked_select",
      "aten::_unique",
      "aten::_unique2",
      "aten::unique_dim",
      "aten::unique_consecutive",
      "aten::nonzero_numpy",
      "aten::bincount",
      "aten::_pack_padded_sequence",
  };
  // repeat_interleave: only with a tensor of repeats.
  return names.count(node.target) > 0 || (node.target == "aten::repeat_interleave" && node.overload != "self_int");
}

// True for operators whose results have the size of an operand, cut or multiplied by a number. If the number depends on
// data, so does the size.
bool cuts_or_repeats(const std::string& target) {
  static const std::unordered_set<std::string> names = {"aten::slice",  "aten::narrow",          "aten::repeat",
                                                        "aten::tile",   "aten::constant_pad_nd", "aten::pad",
                                                        "aten::unfold", "aten::as_strided"};
  return names.contains(target);
}

// The same elements in another shape.
bool changes_shape(const std::string& target) {
  static const std::unordered_set<std::string> names = {"aten::view",    "aten::reshape", "aten::_unsafe_view",
                                                        "aten::flatten", "aten::ravel",   "aten::unflatten"};
  return names.contains(target);
}

// The axis along which such a result grows.
std::int64_t axis_argument(const Node& node) {
  const Argument* axis = node.find("dim");
  const auto* number = axis ? axis->as<std::int64_t>() : nullptr;
  return number ? *number : 0;
}

// True if a reshape's call states the size of axis `axis`, which is then not inferred from the number of elements.
bool is_size_in_call(const Node& recorded, std::size_t axis) {
  for (const char* name : {"size", "shape"}) {
    const Argument* argument = recorded.find(name);
    const auto* sizes = argument ? argument->as<ArgumentList>() : nullptr;
    if (sizes == nullptr || axis >= sizes->size()) continue;
    const auto* size = (*sizes)[axis].as<std::int64_t>();
    return size != nullptr && *size >= 0;
  }
  return false;
}

}  // namespace

bool DataSizes::indexes_by_mask(const Node& node) const {
  if (node.target != "aten::index") return false;
  const Argument* indices = node.find("indices");
  const auto* list = indices ? indices->as<ArgumentList>() : nullptr;
  for (const Argument& index : list ? *list : ArgumentList()) {
    const auto* value = index.as<ValueRef>();
    if (value == nullptr || known_.contains(value->id)) continue;
    const DType dtype = values_.type(value->id).dtype;
    if (dtype == DType::boolean || dtype == DType::uint8) return true;
  }
  return false;
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

void DataSizes::mark(ValueId id) {
  const auto& dims = values_.type(id).dims;
  for (const Dim& dim : dims ? *dims : std::vector<Dim>()) {
    if (!dim.dynamic || dim.symbol != none_id) continue;
    facts_[id].data_shaped = true;
    sizes_.insert(dim.size);
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

void DataSizes::follow(const std::vector<Term>& arguments, const Node& recorded) {
  const auto [values, settled, data_shaped, data_number] = look_at(arguments);
  const bool shape_only = shape_only_argument(recorded.target) >= 0 && recorded.target != "aten::type_as";
  const bool from_sizes = settled || (shape_only && !data_shaped);
  const bool joins = std::ranges::any_of(values, [](const Term* term) { return term->sequence; });
  const bool cuts = data_number && cuts_or_repeats(recorded.target);
  const bool produces = !settled && (has_data_size(recorded) || indexes_by_mask(recorded) || joins || cuts);
  const bool reshapes = data_shaped && changes_shape(recorded.target);
  const std::set<std::int64_t> fixed = produces ? std::set<std::int64_t>() : fixed_sizes(values, recorded);

  for (ValueId id : recorded.outputs) {
    Type& type = values_.type(id);
    facts_[id].from_sizes = from_sizes;
    if (!produces && !data_shaped && !data_number) continue;
    if (type.kind != ValueKind::tensor || !type.dims) continue;
    const std::int64_t grows = axis_argument(recorded);
    const auto rank = static_cast<std::int64_t>(type.dims->size());
    const bool all = cuts && recorded.find("dim") == nullptr;  // aten::repeat
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      Dim& dim = (*type.dims)[static_cast<std::size_t>(axis)];
      const bool produced = produces && (all || axis == (grows < 0 ? grows + rank : grows));
      const bool kept = reshapes ? is_size_in_call(recorded, static_cast<std::size_t>(axis))
                                 : fixed.contains(dim.size) && !sizes_.contains(dim.size);
      const bool depends = !produces && !kept;
      if (produced || depends) dim = {dim.size, true, none_id};
    }
    mark(id);
  }
}

}  // namespace whence::recorder
