#include "recorder/script/sizes.h"

#include <algorithm>
#include <cstdlib>
#include <ranges>

#include "schema/operator_facts.h"
#include "schema/path_conditions.h"
#include "schema/result.h"

namespace whence::recorder::script {

namespace {

// True for operators whose results have a size that depends on the content of an argument, not only on its shape.
bool has_size_of_content(const Node& node) {
  // one_hot: only without a number of classes.
  if (node.target == "aten::one_hot") {
    const Argument* classes = node.find("num_classes");
    const auto* number = classes ? classes->as<std::int64_t>() : nullptr;
    return number == nullptr || *number < 0;
  }
  // where: only without values to choose from (then it is nonzero). repeat_interleave: only with a tensor of repeats.
  if (node.target == "aten::where") return node.arguments.size() == 1;
  if (node.target == "aten::repeat_interleave") return node.overload != "self_int";
  if (node.target == "aten::index") return true;
  if (node.target == "aten::tensor_split") return node.overload == "tensor_indices_or_sections";
  return facts_of(node.target).data_dependent_sizes;
}

// True for types that, as an index, select elements.
bool is_mask(const Type& type) { return type.dtype == DType::boolean || type.dtype == DType::uint8; }

bool is_integer(const Type& type) {
  if (type.kind == ValueKind::integer) return true;
  return type.kind == ValueKind::tensor && type.dims && type.dims->empty() &&
         (type.dtype == DType::int64 || type.dtype == DType::int32);
}

std::optional<std::int64_t> integer_in(const c10::IValue& value) {
  if (value.isInt()) return value.toInt();
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().dim() != 0) return std::nullopt;
  return c10::isIntegralType(value.toTensor().scalar_type(), false)
             ? std::optional(value.toTensor().item<std::int64_t>())
             : std::nullopt;
}

std::int64_t axis_argument(const Node& node) {
  const Argument* axis = node.find("dim");
  const auto* number = axis ? axis->as<std::int64_t>() : nullptr;
  return number ? *number : 0;
}

// Calls `visit` for every value in a term.
void each_value(const Term& term, const auto& visit) {
  if (term.items) {
    for (const Term& item : *term.items) each_value(item, visit);
  }
  if (term.is_value()) visit(term);
}

}  // namespace

Sizes::Sizes(Program& program, Values& values, const KnownValues& known, const inputs::ExampleInputs& inputs,
             const Lockstep& runs)
    : program_(program), values_(values), known_(known), inputs_(inputs), runs_(runs) {}

// ---- sizes and integers of values ---------------------------------------------------------------------------------

Size Sizes::new_symbol(bool of_data, const Numbers& seen) {
  local_symbols_.push_back({of_data, seen});
  return Size::symbol(SymbolId(inputs_.symbols.size() + local_symbols_.size() - 1));
}

const Shape* Sizes::shape(ValueId id) {
  const Type& type = values_.type(id);
  if (is_scalar(type.kind)) {
    static const Shape none;
    return &none;
  }
  if (!type.dims || type.kind == ValueKind::sequence) return nullptr;
  Lengths& lengths = shapes_[id];
  lengths.sizes.resize(type.dims->size(), Size::unknown());
  lengths.of_type.resize(type.dims->size());
  for (std::size_t axis = 0; axis < type.dims->size(); ++axis) {
    const Dim& dim = (*type.dims)[axis];
    const bool of_type = dim.is_static() || dim.symbol != none_id;
    if (of_type) {
      lengths.sizes[axis] = length_of(program_.symbols, dim);
    } else if (lengths.of_type[axis] || !lengths.sizes[axis].is_known()) {
      lengths.sizes[axis] = new_symbol(true);
    }
    lengths.of_type[axis] = of_type;
  }
  return &lengths.sizes;
}

Size Sizes::number(ValueId id) {
  if (!is_integer(values_.type(id))) return Size::unknown();
  const auto [number, is_new] = numbers_.try_emplace(id);
  if (is_new) number->second = new_symbol(true);
  return number->second;
}

const Sizes::LocalSymbol* Sizes::local_symbol(SymbolId id) const {
  if (inputs_.symbols.contains(id)) return nullptr;
  return &local_symbols_[static_cast<std::size_t>(id.number()) - inputs_.symbols.size()];
}

bool Sizes::depends_on_data(const Size& size) const {
  return !size.is_known() || std::ranges::any_of(size.symbols(), [&](SymbolId id) {
    const LocalSymbol* own = local_symbol(id);
    return own != nullptr && own->of_data;
  });
}

// Returns true if the size depends only on those that --dynamic names.
bool Sizes::depends_on_axes_only(const Size& size) const {
  return std::ranges::all_of(size.symbols(), [&](SymbolId id) { return inputs_.symbols.contains(id); });
}

std::optional<std::int64_t> Sizes::value_in_run(const Size& size, int run) const {
  return value_of(size, [&](SymbolId id) -> std::optional<std::int64_t> {
    const LocalSymbol* own = local_symbol(id);
    return own == nullptr ? inputs_.symbol_sizes[id][run] : own->seen[run];
  });
}

// Returns true if the size differs from that of some run: the shape function of the operator, or its input, is wrong.
// The size then becomes unknown. With WHENCE_STRICT_SIZES set, as in the random programs of the tests, this is an
// error.
bool Sizes::is_contradicted(const Size& size, const Numbers& seen, const Node& node) const {
  static const bool strict = std::getenv("WHENCE_STRICT_SIZES") != nullptr;
  if (!size.is_known() || !differs_in_a_run(size, seen)) return false;
  if (!strict) return true;
  const auto name = [](SymbolId id) { return "s" + std::to_string(id.number()); };
  throw Error(Code::internal, "a run contradicts the size " + text_of(size, name) + " of " + qualified(node),
              "please report this with the model", {.stage = "read", .op = qualified(node)});
}

bool Sizes::differs_in_a_run(const Size& size, const Numbers& seen) const {
  for (int run = 0; run < max_runs; ++run) {
    if (!seen[run]) continue;
    const auto number = value_in_run(size, run);
    if (number && *number != *seen[run]) return true;
  }
  return false;
}

// Returns true if `size` is the minimum or maximum of `sizes` for all lengths.
bool Sizes::is_extreme(const Size& size, SizeAtom::Kind kind, const std::vector<Size>& sizes) {
  return std::ranges::all_of(sizes, [&](const Size& other) {
    const Size more = kind == SizeAtom::Kind::minimum ? other - size : size - other;
    return range_of(more, [](SymbolId) { return SizeRange{0}; }).min >= 0;
  });
}

// Notes the assumption that `chosen` is always the minimum or maximum. Only outside control flow, where it is true for
// the whole program.
void Sizes::assume(const Size& chosen, SizeAtom::Kind kind, const std::vector<Size>& operands) {
  const auto relation = kind == SizeAtom::Kind::minimum ? Relation::at_most : Relation::at_least;
  for (const Size& other : operands) {
    if (runs_.depth > 0 || other == chosen) continue;
    whence::assume(program_, {{{chosen, relation, other}}});
  }
}

// Replaces a minimum or maximum of axis sizes with the operand that it equals in every run, if that is provable or the
// slice of a table: one of 512 positions, sliced to the length of a text, has that length; the model runs only there. A
// slice is no evidence if the table has fewer than 2 positions, if it is empty in some run, or if a computed length
// reaches the table's. A constant must be provable: x[:3] need not be 3 long because it was in every run.
Size Sizes::resolve(const SizeAtom& atom, const Numbers& seen) {
  if (atom.kind == SizeAtom::Kind::symbol) return Size::symbol(atom.symbol);
  if (atom.kind == SizeAtom::Kind::call) return Size::call(atom.name, atom.operands);
  std::vector<Size> operands;
  for (const Size& operand : atom.operands) operands.push_back(resolve(operand, seen));
  if (atom.kind == SizeAtom::Kind::floor_division) return floor_div(operands[0], operands[1]);
  const Size extreme = atom.kind == SizeAtom::Kind::minimum ? minimum(operands) : maximum(operands);
  const auto runs = std::ranges::count_if(seen, [](const auto& number) { return number.has_value(); });
  // If some run does not enter a loop or branch, the runs that enter it may all be short.
  const bool by_all = std::ranges::all_of(std::views::iota(0, runs_.count),
                                          [&](int run) { return !runs_.alive[run] || seen[run].has_value(); });
  if (runs < 2 || !by_all || !depends_on_axes_only(extreme)) return extreme;
  const auto table = std::ranges::find_if(operands, &Size::is_integer);
  const std::int64_t positions = table == operands.end() ? 0 : table->number();
  for (const Size& operand : operands) {
    bool always = operand != Size(0), within = true;
    for (int run = 0; run < max_runs; ++run) {
      if (!seen[run]) continue;
      always &= value_in_run(operand, run) == value_in_run(extreme, run);
      const std::int64_t number = value_in_run(operand, run).value_or(0);
      within &= number > 0 && (operand.single_symbol() || number < positions);
    }
    const bool cut_from_table =
        positions > 1 && within && atom.kind == SizeAtom::Kind::minimum && !operand.is_integer();
    if (!always || !(cut_from_table || is_extreme(operand, atom.kind, operands))) continue;
    assume(operand, atom.kind, operands);
    return operand;
  }
  return extreme;
}

Size Sizes::resolve(const Size& size, const Numbers& seen) {
  if (!size.is_known()) return size;
  Size result = size.number();
  for (const Size::Term& term : size.terms()) {
    Size product = term.coefficient;
    for (const auto& factor : term.factors) product = product * resolve(*factor, seen);
    result = result + product;
  }
  return result;
}

ShapeFacts Sizes::facts() {
  return {[this](ValueId id) { return shape(id); }, [this](ValueId id) { return number(id); },
          [this](ValueId id) { return is_mask(values_.type(id)); }, [](SymbolId) { return SizeRange{0}; }};
}

// ---- operations ---------------------------------------------------------------------------------------------------

Sizes::Arguments Sizes::summarize(const std::vector<Term>& arguments) {
  Arguments found;
  const auto add = [&](const Size& size) {
    found.dynamic |= !size.is_integer();
    found.of_data |= depends_on_data(size);
  };
  for (const Term& argument : arguments) {
    each_value(argument, [&](const Term& term) {
      const Type& type = values_.type(term.id);
      const bool known = known_.is_known(term);
      if (known || from_sizes_.contains(term.id)) {
        found.settled_values.insert(term.id);
      } else {
        found.settled = false;
      }
      const auto number_there = known && term.seen[0] ? integer_in(*term.seen[0]) : std::nullopt;
      if (number_there) numbers_[term.id] = *number_there;
      if (type.kind == ValueKind::sequence) found.dynamic = found.of_data = true;
      if (type.kind == ValueKind::integer) add(number(term.id));
      if (type.kind != ValueKind::tensor) return;
      if (const Shape* sizes = shape(term.id)) std::ranges::for_each(*sizes, add);
      if (!is_integer(type)) return;
      if (found.settled_values.contains(term.id)) add(number(term.id));
      for (const auto* memory : program::memories_of(term)) numbers_in_[memory].push_back(term.id);
    });
  }
  return found;
}

// Returns true if a size depends on the content of an argument that depends on data: the masks of an index, the repeats
// of repeat_interleave, or any argument of other operators.
bool Sizes::content_decides_size(const Node& node, const Arguments& arguments) const {
  if (!has_size_of_content(node)) return false;
  const auto of_data = [&](const Argument& argument) {
    const auto* value = argument.as<ValueRef>();
    return value != nullptr && !arguments.settled_values.contains(value->id);
  };
  if (const Argument* repeats = node.find("repeats")) return of_data(*repeats);
  const Argument* indices = node.target == "aten::index" ? node.find("indices") : nullptr;
  const auto* list = indices == nullptr ? nullptr : indices->as<ArgumentList>();
  return list == nullptr || std::ranges::any_of(*list, [&](const Argument& index) {
           return of_data(index) && is_mask(values_.type(index.as<ValueRef>()->id));
         });
}

void Sizes::set_number(const Node& node, const Term& result, Size derived, bool of_data) {
  Numbers seen;
  for (int run = 0; run < max_runs; ++run) {
    if (result.seen[run]) seen[run] = integer_in(*result.seen[run]);
  }
  if (is_contradicted(derived, seen, node)) derived = Size::unknown();
  if (!derived.is_known() && !of_data) {
    const SymbolId symbol = values_.symbol_of(seen);
    derived = symbol == none_id ? new_symbol(false, seen) : length_of(program_.symbols, {0, true, symbol});
  }
  if (derived.is_known()) numbers_[result.id] = resolve(derived, seen);
}

void Sizes::set_shape(const Node& node, const Term& result, const Shape* derived, bool of_data) {
  Type& type = values_.type(result.id);
  if (type.kind != ValueKind::tensor || !type.dims) return;
  if (derived != nullptr && derived->size() != type.dims->size()) derived = nullptr;
  Lengths& lengths = shapes_[result.id];
  Shape& shape = lengths.sizes;
  shape.assign(type.dims->size(), Size::unknown());
  lengths.of_type.assign(type.dims->size(), false);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Dim& dim = (*type.dims)[axis];
    Numbers seen;
    for (int run = 0; run < max_runs; ++run) {
      const bool ran = result.seen[run] && result.seen[run]->isTensor() && result.seen[run]->toTensor().defined();
      if (ran && result.seen[run]->toTensor().dim() == static_cast<std::int64_t>(shape.size())) {
        seen[run] = result.seen[run]->toTensor().size(static_cast<std::int64_t>(axis));
      }
    }
    Size size = derived == nullptr ? Size::unknown() : resolve((*derived)[axis], seen);
    if (is_contradicted(size, seen, node)) size = Size::unknown();
    if (!size.is_known()) {
      const auto runs = std::ranges::count_if(seen, [](const auto& number) { return number.has_value(); });
      // Equal sizes in all runs are weak evidence if the shape function leaves the size unknown, or if they are 0.
      const bool fitted = !of_data && runs > 1 && (dim.dynamic || (derived == nullptr && dim.size != 0));
      if (!fitted) dim = {dim.size, true, none_id};
      if (dim.dynamic && dim.symbol == none_id) shape[axis] = new_symbol(of_data, seen);
      continue;
    }
    shape[axis] = size;
    if (const auto number = size.integer()) {
      dim = {*number, false, none_id};
    } else {
      const auto symbol = size.single_symbol();
      dim = {dim.size, true, symbol && depends_on_axes_only(size) ? *symbol : none_id};
    }
  }
}

void Sizes::derive(const std::vector<Term>& arguments, const Node& recorded, const std::vector<Term>& results) {
  const Arguments known = summarize(arguments);
  const OperatorFacts& operator_facts = facts_of(recorded.target);
  const bool shape_only = operator_facts.shape_only >= 0 && recorded.target != "aten::type_as";
  const bool from_sizes = known.settled || (shape_only && !known.of_data);
  const bool by_data = known.of_data || (!known.settled && content_decides_size(recorded, known));
  for (const Term& result : results) {
    if (from_sizes && result.is_value()) from_sizes_.insert(result.id);
  }
  if (!known.dynamic && !by_data) return;
  if (results.size() == 1) note_comparison(recorded, results[0]);
  const ShapeFacts shape_facts = facts();
  const auto shapes = shapes_of_results(recorded, shape_facts);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_value()) continue;
    set_shape(recorded, results[i], shapes && i < shapes->size() ? &(*shapes)[i] : nullptr, by_data);
    if (!is_integer(values_.type(results[i].id)) || results[i].known) continue;
    const bool all_sizes = recorded.target == "aten::size" && recorded.arguments.size() == 1;
    const Shape* sizes = all_sizes ? shape(arguments[0].id) : nullptr;
    set_number(recorded, results[i], sizes && i < sizes->size() ? (*sizes)[i] : number_of_result(recorded, shape_facts),
               !from_sizes);
  }
}

void Sizes::note_comparison(const Node& node, const Term& result) {
  static const std::unordered_map<std::string_view, Relation> relations{
      {"aten::eq", Relation::equal},   {"aten::ne", Relation::different}, {"aten::lt", Relation::less},
      {"aten::le", Relation::at_most}, {"aten::gt", Relation::greater},   {"aten::ge", Relation::at_least}};
  const auto relation = relations.find(node.target);
  if (relation == relations.end() || !result.is_value() || values_.type(result.id).kind != ValueKind::boolean) return;
  const auto operand = [&](std::size_t i) {
    const Argument& argument = node.arguments[i].value;
    if (const auto* literal = argument.as<std::int64_t>()) return Size(*literal);
    const auto* value = argument.as<ValueRef>();
    return value == nullptr ? Size::unknown() : number(value->id);
  };
  const Size left = operand(0), right = operand(1);
  conditions_[result.id] = {{{left, negated(relation->second), right}}, {{left, relation->second, right}}};
}

void Sizes::note_choice(const Term& result, const Term& condition, const Term& first, const Term& second) {
  if (!result.is_value()) return;
  const auto is_flag = [](const Term& term, bool value) {
    const auto settled = term.settled();
    return settled && settled->isBool() && settled->toBool() == value;
  };
  const auto both = [&](bool holds, const Term& other) {
    std::vector<Comparison> all = comparisons_if(condition, holds), more = comparisons_if(other, holds);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  if (is_flag(second, false)) conditions_[result.id] = {{}, both(true, first)};
  if (is_flag(first, true)) conditions_[result.id] = {both(false, second), {}};
}

std::vector<Comparison> Sizes::comparisons_if(const Term& condition, bool holds) const {
  const auto known = condition.is_value() ? conditions_.find(condition.id) : conditions_.end();
  return known == conditions_.end() ? std::vector<Comparison>()
                                    : (holds ? known->second.if_true : known->second.if_false);
}

void Sizes::enter_side(const Term& condition, bool holds) {
  side_conditions_.push_back(comparisons_if(condition, holds));
}

SizeRange Sizes::range_here(ValueId tensor, std::int64_t axis) {
  const Shape* sizes = shape(tensor);
  if (sizes == nullptr) return {0};
  const Size& size = sizes->at(static_cast<std::size_t>(axis));
  SizeRange range = range_of(size, facts().ranges);
  for (const auto& conditions : side_conditions_) {
    const SizeRange here = range_under(conditions, size, facts().ranges);
    range = {std::max(range.min, here.min), std::min(range.max, here.max)};
  }
  return range;
}

void Sizes::forget_numbers(const std::vector<const Term*>& written) {
  for (const Term* term : written) {
    for (const auto* memory : program::memories_of(*term)) {
      const auto numbers = numbers_in_.find(memory);
      if (numbers == numbers_in_.end()) continue;
      for (const ValueId id : numbers->second) {
        numbers_.erase(id);
        from_sizes_.erase(id);
      }
    }
  }
}

void Sizes::name_derived() {
  std::map<Size, SymbolId> symbols;
  for (const Node& node : program_.body.nodes) {
    for (const ValueId id : node.outputs) {
      const auto lengths = shapes_.find(id);
      auto& dims = values_.type(id).dims;
      if (lengths == shapes_.end() || !dims || dims->size() != lengths->second.sizes.size()) continue;
      for (std::size_t axis = 0; axis < dims->size(); ++axis) {
        Dim& dim = (*dims)[axis];
        const Size& size = lengths->second.sizes[axis];
        if (!dim.dynamic || dim.symbol != none_id || !size.is_known() || size.is_integer() ||
            !depends_on_axes_only(size))
          continue;
        const auto [symbol, is_new] = symbols.try_emplace(size, SymbolId(program_.symbols.size()));
        dim.symbol = symbol->second;
        if (!is_new) continue;
        program_.symbols.push_back({"", dim.size, {}, {}, SymbolKind::derived, size});
        whence::name_derived(program_.symbols, dim.symbol);
      }
    }
  }
}

// ---- lists whose length depends on data ---------------------------------------------------------------------------

bool Sizes::has_dynamic_part_count(const Node& node) {
  const auto* self = node.arguments.empty() ? nullptr : node.arguments.front().value.as<ValueRef>();
  if (self == nullptr || !facts_of(node.target).parts || node.overload == "sizes") return false;
  const Argument* argument = node.find("split_size");
  const auto* size = argument ? argument->as<ValueRef>() : nullptr;
  if (size != nullptr && depends_on_data(number(size->id))) return true;
  const Shape* sizes = shape(self->id);
  if (sizes == nullptr || sizes->empty()) return false;
  const std::int64_t axis = axis_argument(node), rank = static_cast<std::int64_t>(sizes->size());
  const Size& cut = (*sizes)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  if (depends_on_data(cut)) return true;
  if (cut.is_integer()) return false;
  // Even if all runs have one part of x[:1], an empty axis has none.
  if (node.target == "aten::unbind") return true;
  // All runs may have one number of pieces and other inputs another: the last part of x.split(3) is 1, 2 or 3 long.
  const auto* piece = argument ? argument->as<std::int64_t>() : nullptr;
  if (piece != nullptr && *piece > 0 && cut.is_known()) {
    const SizeRange pieces = range_of(floor_div(cut + (*piece - 1), *piece), facts().ranges);
    if (std::max<std::int64_t>(pieces.min, 1) != pieces.max) return true;
  }
  // In all runs the axis may be longer than the number of chunks.
  const Argument* chunks = node.find("chunks");
  const auto* count = chunks ? chunks->as<std::int64_t>() : nullptr;
  return count != nullptr && *count > 1 && cut.is_known() && modulo(cut, *count) != 0;
}

void Sizes::note_list_element(const std::vector<Dim>& dims) {
  std::vector<bool>& open = open_in_lists_[dims.size()];
  open.resize(dims.size());
  for (std::size_t axis = 0; axis < dims.size(); ++axis) open[axis] = open[axis] || !dims[axis].is_static();
}

void Sizes::note_list_parts(const Node& recorded, const RunValues& parts) {
  if (recorded.target == "aten::unbind") return;
  for (const auto& list : parts) {
    if (!list || list->toListRef().empty()) continue;
    const std::int64_t rank = list->toListRef()[0].toTensor().dim(), axis = axis_argument(recorded);
    std::vector<bool>& open = open_in_lists_[static_cast<std::size_t>(rank)];
    open.resize(static_cast<std::size_t>(rank));
    open[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
}

void Sizes::open_element_sizes(Type& type) const {
  if (!type.dims) return;
  const auto open = open_in_lists_.find(type.dims->size());
  for (std::size_t axis = 0; open != open_in_lists_.end() && axis < type.dims->size(); ++axis) {
    Dim& dim = (*type.dims)[axis];
    if (dim.is_static() && open->second[axis]) dim = {dim.size, true, none_id};
  }
}

}  // namespace whence::recorder::script
