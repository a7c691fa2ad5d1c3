// Values of the Program: their names and types, which of them depend on no input, and whose shape depends on data.
#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

// Results whose size depends on what the input holds, not only on its shape.
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

// Results whose size is that of an operand, cut or multiplied by a number; where the number comes from data, so does
// it.
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

// The argument (by position) of which an operator uses the shape alone, or -1.
int shape_only_argument(const std::string& target) {
  static const std::unordered_map<std::string, int> positions = {
      {"aten::size", 0},       {"aten::sym_size", 0},   {"aten::numel", 0},     {"aten::len", 0},
      {"aten::zeros_like", 0}, {"aten::ones_like", 0},  {"aten::full_like", 0}, {"aten::new_zeros", 0},
      {"aten::new_ones", 0},   {"aten::new_full", 0},   {"aten::expand_as", 1}, {"aten::view_as", 1},
      {"aten::type_as", 1},    {"aten::reshape_as", 1},
  };
  const auto found = positions.find(target);
  return found == positions.end() ? -1 : found->second;
}

// A folded result may not be much larger than what it was made from: such are cheaper to compute than to store.
constexpr std::size_t always_small_enough = 1 << 20;

std::size_t bytes_in(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? value.toTensor().nbytes() : 0;
  std::size_t sum = 0;
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) sum += bytes_in(element);
  }
  return sum;
}

}  // namespace

ValueId Evaluator::new_value(const std::string& name, ValueSource source, std::int32_t index) {
  Value value;
  int& count = names_[name];
  value.name = count == 0 ? name : name + "_" + std::to_string(count);
  while (count > 0 && names_.count(value.name) > 0) value.name = name + "_" + std::to_string(++count);
  ++count;
  if (value.name != name) names_[value.name] = 1;
  value.source = source;
  value.index = index;
  program_.values.push_back(std::move(value));
  facts_.push_back({});
  return static_cast<ValueId>(program_.values.size() - 1);
}

// Fixed when every run has it alike; named when it is, in every run, what the symbol is.
Dim Evaluator::dim_of(const PerRun<std::optional<std::int64_t>>& sizes) const {
  Dim dim;
  for (const auto& size : sizes) {
    if (!size) continue;
    if (dim.size < 0) dim.size = *size;
    dim.dynamic |= *size != dim.size;
  }
  for (std::size_t symbol = 0; dim.dynamic && symbol < inputs_.symbol_sizes.size(); ++symbol) {
    bool equal = true;
    for (int run = 0; run < most_runs; ++run) equal &= !sizes[run] || *sizes[run] == inputs_.symbol_sizes[symbol][run];
    if (equal) dim.symbol = static_cast<SymbolId>(symbol);
  }
  return dim;
}

Type Evaluator::type_of(const PerRun<std::optional<c10::IValue>>& seen, const c10::TypePtr& declared) const {
  const auto found = std::find_if(seen.begin(), seen.end(), [](const auto& value) { return value.has_value(); });
  const c10::IValue* first = found == seen.end() ? nullptr : &**found;
  if (first != nullptr && first->isTensor() && first->toTensor().defined()) {
    const at::Tensor& tensor = first->toTensor();
    Type type{ValueKind::tensor, dtype_of(tensor), std::vector<Dim>()};
    std::vector<PerRun<std::optional<std::int64_t>>> sizes(static_cast<std::size_t>(tensor.dim()));
    for (int run = 0; run < most_runs; ++run) {
      if (!seen[run] || !seen[run]->isTensor() || !seen[run]->toTensor().defined()) continue;
      const at::Tensor& other = seen[run]->toTensor();
      if (other.dim() != tensor.dim()) return {ValueKind::tensor, type.dtype, std::nullopt};
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis][run] = other.size(static_cast<int>(axis));
    }
    for (const auto& axis : sizes) type.dims->push_back(dim_of(axis));
    return type;
  }
  if (first != nullptr && first->isList()) return {ValueKind::sequence, element_dtype(seen), std::nullopt};
  c10::TypePtr type = declared;
  while (type && type->kind() == c10::TypeKind::OptionalType)
    type = type->expect<c10::OptionalType>()->getElementType();
  switch (type ? type->kind() : c10::TypeKind::AnyType) {
    case c10::TypeKind::TensorType:
      return {ValueKind::tensor, DType::undefined, std::nullopt};
    case c10::TypeKind::IntType:
      return {ValueKind::integer, DType::int64, std::nullopt};
    case c10::TypeKind::FloatType:
      return {ValueKind::floating, DType::float64, std::nullopt};
    case c10::TypeKind::BoolType:
      return {ValueKind::boolean, DType::boolean, std::nullopt};
    case c10::TypeKind::StringType:
      return {ValueKind::string, DType::undefined, std::nullopt};
    case c10::TypeKind::NumberType:
      if (first != nullptr && first->isDouble()) return {ValueKind::floating, DType::float64, std::nullopt};
      if (first != nullptr && first->isBool()) return {ValueKind::boolean, DType::boolean, std::nullopt};
      return {ValueKind::integer, DType::int64, std::nullopt};
    default:
      return {ValueKind::opaque, DType::undefined, std::nullopt};
  }
}

bool Evaluator::indexes_by_mask(const Node& node) const {
  if (node.target != "aten::index") return false;
  const Argument* indices = node.find("indices");
  const auto* list = indices ? indices->as<ArgumentList>() : nullptr;
  for (const Argument& index : list ? *list : ArgumentList()) {
    const auto* value = index.as<ValueRef>();
    if (value == nullptr || known_.count(value->id) > 0) continue;
    const DType dtype = program_.values[value->id].type.dtype;
    if (dtype == DType::boolean || dtype == DType::uint8) return true;
  }
  return false;
}

bool Evaluator::is_known(const Term& term) const {
  if (term.items) {
    for (const Term& item : *term.items) {
      if (!is_known(item)) return false;
    }
    return true;
  }
  if (!term.is_value()) return term.kind != Term::Kind::object;
  if (!term.known) return false;
  const auto& seen = term.seen[0];
  return !seen || !seen->isTensor() || !seen->toTensor().has_storage() ||
         tainted_.count(seen->toTensor().storage().unsafeGetStorageImpl()) == 0;
}

// The i-th size of the tensor that aten::size reads is the same in every run.
bool Evaluator::static_size(const Node& node, std::size_t axis) const {
  const auto* self = node.arguments.empty() ? nullptr : node.arguments[0].value.as<ValueRef>();
  if (self == nullptr) return false;
  const auto& dims = program_.values[self->id].type.dims;
  return dims && axis < dims->size() && (*dims)[axis].is_static();
}

bool Evaluator::result_known(const jit::Node& node, const std::vector<Term>& arguments,
                             const PerRun<std::optional<std::vector<c10::IValue>>>& results) const {
  if (!results[0] || node.isNondeterministic() || depth_ > 0) return false;
  const std::string target = node.kind().toQualString();
  if (target.rfind("aten::empty", 0) == 0 || target == "aten::new_empty") return false;
  const int shape_only = shape_only_argument(target);
  std::size_t input_bytes = 0, output_bytes = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Term& term = arguments[i];
    if (static_cast<int>(i) != shape_only) {
      if (!is_known(term)) return false;
      for (const auto& seen : {term.seen[0]}) input_bytes += seen ? bytes_in(*seen) : 0;
      continue;
    }
    if (!term.is_value()) continue;
    const auto& dims = program_.values[term.id].type.dims;
    if (!dims) return false;
    if (target == "aten::size" && arguments.size() == 1) return false;  // a list: decided for each size
    const bool one = (target == "aten::size" || target == "aten::sym_size") && arguments[1].settled();
    for (std::size_t axis = 0; axis < dims->size(); ++axis) {
      if (one) {
        const std::int64_t asked = arguments[1].settled()->toInt();
        const auto rank = static_cast<std::int64_t>(dims->size());
        if ((asked < 0 ? asked + rank : asked) != static_cast<std::int64_t>(axis)) continue;
      }
      if (!(*dims)[axis].is_static()) return false;
    }
  }
  for (const c10::IValue& value : *results[0]) output_bytes += bytes_in(value);
  return output_bytes <= always_small_enough || output_bytes <= 2 * input_bytes;
}

// A write changes everything that shares the memory. Constants noted so far keep what they were.
void Evaluator::before_write(const jit::Node& node, const std::vector<Term>& arguments) {
  for (const Term* written : written_by(node, arguments)) {
    const auto sharing = known_in_.find(memory_of(*written));
    if (sharing == known_in_.end()) continue;
    for (ValueId id : sharing->second) known_[id] = known_[id].toTensor().clone();
    known_in_.erase(sharing);
  }
}

void Evaluator::after_write(const jit::Node& node, const std::vector<Term>& arguments, bool known) {
  if (known) return;
  for (const Term* written : written_by(node, arguments)) {
    // Held weakly, so that no later storage can get the same address and be taken for this one.
    tainted_.emplace(memory_of(*written), written->seen[0]->toTensor().storage().getWeakStorageImpl());
  }
}

// True if axis `axis` of a tensor in another shape is what the call says, and not what is left of the elements.
static bool given_size(const Node& recorded, std::size_t axis) {
  for (const char* name : {"size", "shape"}) {
    const Argument* given = recorded.find(name);
    const auto* sizes = given ? given->as<ArgumentList>() : nullptr;
    if (sizes == nullptr || axis >= sizes->size()) continue;
    const auto* size = (*sizes)[axis].as<std::int64_t>();
    return size != nullptr && *size >= 0;
  }
  return false;
}

// Sizes of a result that do not change with the data: those that its operands have for certain, and numbers in the
// call.
std::set<std::int64_t> Evaluator::fixed_sizes(const std::vector<const Term*>& values, const Node& recorded) const {
  std::set<std::int64_t> fixed{1};
  for (const Term* term : values) {
    const auto& dims = program_.values[term->id].type.dims;
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

// Its sizes without a name depend on data, and so do equal ones of what is computed of it.
void Evaluator::mark_data_shaped(ValueId id) {
  const auto& dims = program_.values[id].type.dims;
  for (const Dim& dim : dims ? *dims : std::vector<Dim>()) {
    if (!dim.dynamic || dim.symbol != none_id) continue;
    facts_[id].data_shaped = true;
    data_sizes_.insert(dim.size);
  }
}

// Marks sizes that depend on the contents of an input: two runs on inputs of like contents would not show them.
void Evaluator::follow_data(const std::vector<Term>& arguments, const Node& recorded) {
  std::vector<const Term*> values;
  const std::function<void(const Term&)> collect = [&](const Term& term) {
    if (term.is_value()) values.push_back(&term);
    if (!term.items) return;
    for (const Term& item : *term.items) collect(item);
  };
  for (const Term& term : arguments) collect(term);

  bool settled = true, shaped_input = false, data_scalar = false;
  for (const Term* term : values) {
    const Type& type = program_.values[term->id].type;
    const bool fixed = is_known(*term) || facts_[term->id].from_sizes;
    settled &= fixed;
    shaped_input |= facts_[term->id].data_shaped;
    if (type.kind != ValueKind::integer || fixed) continue;
    data_scalar = true;
    if (term->seen[0] && term->seen[0]->isInt()) data_sizes_.insert(term->seen[0]->toInt());
  }
  const bool shape_only = shape_only_argument(recorded.target) >= 0 && recorded.target != "aten::type_as";
  const bool from_sizes = settled || (shape_only && !shaped_input);
  const bool joins = std::ranges::any_of(values, [](const Term* term) { return term->sequence; });
  const bool cuts = data_scalar && cuts_or_repeats(recorded.target);
  const bool produces = !settled && (has_data_size(recorded) || indexes_by_mask(recorded) || joins || cuts);
  const bool reshapes = shaped_input && changes_shape(recorded.target);
  const std::set<std::int64_t> fixed = produces ? std::set<std::int64_t>() : fixed_sizes(values, recorded);

  for (ValueId id : recorded.outputs) {
    Type& type = program_.values[id].type;
    facts_[id].from_sizes = from_sizes;
    if (!produces && !shaped_input && !data_scalar) continue;
    if (type.kind != ValueKind::tensor || !type.dims) continue;
    const std::int64_t grows = axis_argument(recorded);
    const auto rank = static_cast<std::int64_t>(type.dims->size());
    const bool all = cuts && recorded.find("dim") == nullptr;  // aten::repeat
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      Dim& dim = (*type.dims)[static_cast<std::size_t>(axis)];
      const bool produced = produces && (all || axis == (grows < 0 ? grows + rank : grows));
      const bool kept = reshapes ? given_size(recorded, static_cast<std::size_t>(axis))
                                 : fixed.contains(dim.size) && !data_sizes_.contains(dim.size);
      const bool depends = !produces && !kept;
      if (produced || depends) dim = {dim.size, true, none_id};
    }
    mark_data_shaped(id);
  }
}

}  // namespace whence::recorder
