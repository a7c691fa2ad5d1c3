#include "annotator/pt2/guards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>

#include "schema/parse_number.h"
#include "schema/program_walk.h"

namespace whence::pt2 {

namespace {

constexpr std::size_t max_guards = 2000;

// Operators for which torch.export fixes the lengths of arguments, although they compute the same function at any
// length.
constexpr std::array<std::string_view, 7> fixing_operators{
    "aten::gru",      "aten::kron",    "aten::lstm", "aten::max_pool1d", "aten::max_pool1d_with_indices",
    "aten::rnn_relu", "aten::rnn_tanh"};

// Parses "L['args'][0].size()[1]" into "args_0", the archive's name of the input, and axis 1.
std::optional<std::pair<std::string, std::size_t>> axis_of(const std::string& path) {
  constexpr std::string_view size = ".size()[";
  const std::size_t at = path.find(size);
  if (!path.starts_with("L[") || at == std::string::npos || !path.ends_with(']')) return std::nullopt;
  const std::size_t digits = at + size.size();
  const auto axis = parse_number<std::size_t>(std::string_view(path).substr(digits, path.size() - digits - 1));
  if (!axis) return std::nullopt;
  std::string name;
  bool between = false;
  for (const char c : path.substr(1, at - 1)) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (word && between && !name.empty()) name += '_';
    if (word) name += c;
    between = !word;
  }
  return std::pair(name, *axis);
}

std::optional<Size> length_of_axis(const Program& program, const std::string& path) {
  const auto axis = axis_of(path);
  if (!axis) return std::nullopt;
  const auto input = std::ranges::find(program.inputs, axis->first, &ProgramInput::name);
  if (input == program.inputs.end()) return std::nullopt;
  const auto& dims = program.values[input->value].type.dims;
  if (!dims || axis->second >= dims->size()) return std::nullopt;
  const Size length = length_of(program.symbols, (*dims)[axis->second]);
  return length.is_known() ? std::optional(length) : std::nullopt;
}

std::set<SymbolId> symbols_of(const Constraint& constraint) {
  std::set<SymbolId> found;
  for (const Comparison& each : constraint.any) {
    for (const Size* side : {&each.left, &each.right}) {
      const auto symbols = side->symbols();
      found.insert(symbols.begin(), symbols.end());
    }
  }
  return found;
}

// Returns the symbols that decide whether an equality holds. A factor of both sides does not, such as the batch b in
// b*n == b*4*(n//4).
std::set<SymbolId> deciding_symbols(const Constraint& equality) {
  const Size difference = equality.any[0].left - equality.any[0].right;
  std::set<SymbolId> found = symbols_of(equality);
  std::erase_if(found, [&](SymbolId id) {
    const Size rest = difference.with([&](SymbolId other) { return other == id ? Size(1) : Size::symbol(other); });
    return certainly_equal(difference, Size::symbol(id) * rest);
  });
  return found;
}

bool is_known(const Constraint& constraint) {
  return std::ranges::all_of(constraint.any,
                             [](const Comparison& each) { return each.left.is_known() && each.right.is_known(); });
}

// Returns true for a condition of the form left == right.
bool is_equality(const Constraint& constraint) {
  return constraint.any.size() == 1 && constraint.any[0].relation == Relation::equal;
}

using Sizes = std::map<SymbolId, std::int64_t>;  // trial sizes; other symbols have the example's size

class Decisions {
 public:
  explicit Decisions(const Program& program) : program_(program) {
    for (const Symbol& symbol : program.symbols) {
      if (symbol.kind == SymbolKind::derived) lengths_.push_back(symbol.size);
    }
    known_lengths_.insert(lengths_.begin(), lengths_.end());
    for (const SymbolId id : program.symbols.keys()) {
      if (program.symbols[id].kind == SymbolKind::axis) known_lengths_.insert(Size::symbol(id));
    }
    visit(program.body);
  }

  // Returns conditions that are worth stating in the file although the model does not branch on them: conditions under
  // which PyTorch runs the program, lengths that it fixed, and bounds that sizes of 0 or 1 may violate.
  std::vector<Constraint> worth_stating(const std::vector<Constraint>& guards) const {
    std::vector<Constraint> found;
    std::ranges::copy_if(guards, std::back_inserter(found), [&](const Constraint& each) {
      return concerns_axes(each) && (is_bound(each) || (is_equality(each) && !is_of_fixing_operator(each)));
    });
    return found;
  }

  // Removes the conditions that do not restrict the file.
  void keep_decisions(std::vector<Constraint>& guards) {
    std::vector<Constraint> rules;
    std::ranges::copy_if(guards, std::back_inserter(rules),
                         [&](const Constraint& each) { return is_rule_of_pytorch(each); });
    std::erase_if(guards, [&](const Constraint& each) {
      return !excludes_sizes(each) || std::ranges::any_of(rules, [&](const Constraint& other) {
        return is_equality(each) && follows(each, other);
      });
    });
  }

 private:
  // Returns true if the condition may be a decision of the model: PyTorch itself compares sizes with 0, with 1 and with
  // each other.
  static bool may_be_decision(const Constraint& constraint) {
    return constraint.any.size() != 1 || constraint.any[0].relation != Relation::different ||
           (symbols_of(constraint).size() == 1 && constraint.any[0].right.integer().value_or(0) > 1);
  }

  bool concerns_axes(const Constraint& constraint) const {
    const std::set<SymbolId> symbols = symbols_of(constraint);
    const auto is_axis = [&](SymbolId id) { return symbol(id).kind == SymbolKind::axis && symbol(id).example > 0; };
    return !symbols.empty() && std::ranges::all_of(symbols, is_axis);
  }

  // Returns true for an inequality, except bounds of 2 or less, which PyTorch adds for every length, and bounds that
  // the range of a symbol already states.
  static bool is_bound(const Constraint& constraint) {
    if (constraint.any.size() != 1) return false;
    const Comparison& only = constraint.any[0];
    if (only.relation == Relation::equal || only.relation == Relation::different) return false;
    const bool from_below = only.relation == Relation::at_least || only.relation == Relation::greater;
    if (from_below && only.left.single_symbol() && only.right.is_integer()) return false;
    return only.right.integer().value_or(3) > 2;
  }

  // Returns true for the condition under which a reshape keeps the number of elements, such as n*m % 6 == 0: PyTorch
  // rejects other sizes.
  bool fits_reshape(const Constraint& constraint) const {
    if (!is_equality(constraint)) return false;
    const Size difference = constraint.any[0].left - constraint.any[0].right;
    Size::Terms products;
    for (const Size::Term& term : difference.terms()) {
      const auto is_symbol = [](const auto& factor) { return factor->kind == SizeAtom::Kind::symbol; };
      if (std::ranges::all_of(term.factors, is_symbol)) products.push_back(term);
    }
    const Size elements = Size::sum(difference.number(), std::move(products));
    return std::ranges::any_of(reshapes_,
                               [&](const auto& reshape) { return certainly_equal(reshape.first, elements); });
  }

  // Returns true if the condition is false for some sizes at which the program's operations could run.
  bool excludes_sizes(const Constraint& constraint) {
    if (!concerns_axes(constraint) || !may_be_decision(constraint)) return false;
    const std::set<SymbolId> symbols = symbols_of(constraint);
    if (joins_tensors(constraint) || fits_reshape(constraint)) return false;
    Sizes sizes;
    return finds_violation(constraint, symbols, symbols.begin(), sizes);
  }

  // Returns true for a length that is 0 or 1 in the example, which PyTorch always fixes. An argument computed from it
  // is a number in the archive.
  bool is_small(const Constraint& constraint) const {
    if (!is_equality(constraint)) return false;
    const bool small = constraint.any[0].right == Size(0) || constraint.any[0].right == Size(1);
    return small && known_lengths_.contains(constraint.any[0].left);
  }

  bool is_of_fixing_operator(const Constraint& constraint) const {
    return is_equality(constraint) && constraint.any[0].right.is_integer() && !is_small(constraint) &&
           fixed_lengths_.contains(constraint.any[0].left);
  }

  // Returns true for a length that PyTorch fixes, not the model's code.
  bool is_rule_of_pytorch(const Constraint& constraint) const {
    return is_small(constraint) || is_of_fixing_operator(constraint);
  }

  // Returns true if `constraint`, on the same single size, holds whenever `other` does.
  bool follows(const Constraint& constraint, const Constraint& other) const {
    const std::set<SymbolId> symbols = symbols_of(other);
    if (symbols.size() != 1 || symbols != symbols_of(constraint)) return false;
    return std::ranges::all_of(candidates(*symbols.begin(), true), [&](std::int64_t size) {
      const auto numbers = [&](SymbolId) { return std::optional(size); };
      return holds(other, numbers) != true || holds(constraint, numbers) == true;
    });
  }

  const Symbol& symbol(SymbolId id) const { return program_.symbols[id]; }

  // Returns true for two lengths that must be equal because an operation combines the tensors: PyTorch
  // rejects other lengths.
  bool joins_tensors(const Constraint& constraint) const {
    return is_equality(constraint) && known_lengths_.contains(constraint.any[0].left) &&
           known_lengths_.contains(constraint.any[0].right);
  }

  void visit(const Block& block) {
    for (const Node& node : block.nodes) {
      for (const Block& inner : node.blocks) visit(inner);
      if (std::ranges::find(fixing_operators, node.target) != fixing_operators.end()) {
        each_operand(node, [&](ValueId id) { add_lengths(id); });
      }
      const bool reshape = node.target == "aten::view" || node.target == "aten::reshape" ||
                           node.target == "aten::_unsafe_view" || node.target == "aten::unflatten";
      const Argument* self = reshape ? node.find("self") : nullptr;
      const auto* before = self == nullptr ? nullptr : self->as<ValueRef>();
      if (before == nullptr || node.outputs.size() != 1) continue;
      const Size one = elements(before->id), other = elements(node.outputs[0]);
      if (one.is_known() && other.is_known() && one != other) reshapes_.insert({one, other});
    }
  }

  void add_lengths(ValueId id) {
    const auto& dims = program_.values[id].type.dims;
    for (std::size_t axis = 0; dims && axis < dims->size(); ++axis) {
      fixed_lengths_.insert(length_of(program_.symbols, (*dims)[axis]));
    }
  }

  Size elements(ValueId id) const {
    const auto& dims = program_.values[id].type.dims;
    if (!dims) return Size::unknown();
    Size product = 1;
    for (const Dim& dim : *dims) product = product * length_of(program_.symbols, dim);
    return product;
  }

  // Returns trial sizes near small numbers, strides, windows and the example; for a single symbol, all small numbers.
  std::vector<std::int64_t> candidates(SymbolId id, bool single) const {
    const std::int64_t example = symbol(id).example;
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = 2; size <= (single ? 70 : 9); ++size) sizes.push_back(size);
    for (const std::int64_t size : {example / 2, example - 1, example, example + 1, example + 2, 2 * example,
                                    2 * example + 1, 3 * example, 4 * example + 1, 9 * example}) {
      if (size >= 2) sizes.push_back(size);
    }
    return sizes;
  }

  bool finds_violation(const Constraint& constraint, const std::set<SymbolId>& symbols,
                       std::set<SymbolId>::const_iterator next, Sizes& sizes) {
    if (next == symbols.end() || sizes.size() == 2) {
      const auto numbers = [&](SymbolId id) { return number(id, sizes); };
      return holds(constraint, numbers) == false && could_run(sizes);
    }
    for (const std::int64_t size : candidates(*next, symbols.size() == 1)) {
      sizes[*next] = size;
      if (finds_violation(constraint, symbols, std::next(next), sizes)) return true;
    }
    sizes.erase(*next);
    return false;
  }

  std::optional<std::int64_t> number(SymbolId id, const Sizes& sizes) const {
    const auto found = sizes.find(id);
    return found == sizes.end() ? symbol(id).example : found->second;
  }

  // Returns true if no derived length becomes 0 or 1 (PyTorch has special rules for those) and no reshape changes the
  // number of elements.
  bool could_run(const Sizes& sizes) {
    const auto [known, is_new] = could_run_.try_emplace(sizes, true);
    if (!is_new) return known->second;
    const auto numbers = [&](SymbolId id) { return number(id, sizes); };
    const auto in_example = [&](SymbolId id) { return std::optional(symbol(id).example); };
    for (const Size& length : lengths_) {
      if (value_of(length, in_example).value_or(2) > 1) known->second &= value_of(length, numbers).value_or(2) > 1;
    }
    for (const auto& [one, other] : reshapes_) known->second &= value_of(one, numbers) == value_of(other, numbers);
    return known->second;
  }

  const Program& program_;
  std::vector<Size> lengths_;     // derived lengths
  std::set<Size> known_lengths_;  // derived lengths and lengths of inputs
  std::set<Size> fixed_lengths_;  // lengths of arguments of fixing_operators
  std::set<std::pair<Size, Size>> reshapes_;
  std::map<Sizes, bool> could_run_;
};

// Fixes a symbol to its size in the example everywhere.
void fix(Program& program, SymbolId id) {
  const std::int64_t number = program.symbols[id].example;
  program.symbols[id].min = program.symbols[id].max = number;
  for (Symbol& symbol : program.symbols) {
    if (symbol.kind != SymbolKind::derived) continue;
    symbol.size = symbol.size.with([&](SymbolId other) { return other == id ? Size(number) : Size::symbol(other); });
  }
  for (Value& value : program.values) {
    if (!value.type.dims) continue;
    for (Dim& dim : *value.type.dims) {
      const auto length = dim.symbol == id ? std::optional(number) : length_of(program.symbols, dim).integer();
      if (dim.dynamic && length && *length >= 0) dim = {*length, false, none_id};
    }
  }
}

// "axis 1 of 'x'"
std::string axes_named(const Program& program, SymbolId id) {
  std::string text;
  for (const ProgramInput& input : program.inputs) {
    const auto& dims = program.values[input.value].type.dims;
    for (std::size_t axis = 0; dims && axis < dims->size(); ++axis) {
      if ((*dims)[axis].symbol != id) continue;
      text += (text.empty() ? "" : ", ") + ("axis " + std::to_string(axis)) + " of '" + input.name + "'";
    }
  }
  return text;
}

}  // namespace

std::vector<Constraint> read_guards(const Part& guards, const Program& program) {
  std::vector<Constraint> all;
  const SizeNames names = [&](const std::string& path) { return length_of_axis(program, path); };
  for (std::size_t i = 0; i < std::min(guards.size(), max_guards); ++i) {
    auto read = read_constraints(guards[i].view(), names);
    if (!read) continue;
    for (Constraint& each : *read) {
      if (is_known(each) && std::ranges::find(all, each) == all.end()) all.push_back(std::move(each));
    }
  }
  return all;
}

void apply_guards(std::vector<Constraint> guards, const std::set<SymbolId>& promised, const Place& place,
                  Program& program, Diagnostics& notes) {
  const auto name_of = [&](SymbolId id) { return program.symbols[id].name; };
  Decisions decisions(program);
  for (Constraint& each : decisions.worth_stating(guards)) assume(program, std::move(each));
  decisions.keep_decisions(guards);
  std::string ranges, fixed;
  std::set<SymbolId> sizes;
  for (const Constraint& guard : guards) {
    const std::string text = text_of(guard, name_of);
    if (!is_equality(guard)) {
      ranges += (ranges.empty() ? "" : ", ") + text;
      assume(program, guard);
      continue;
    }
    for (const SymbolId id : deciding_symbols(guard)) {
      if (promised.contains(id)) {
        throw Error(Code::baked_size,
                    "the program was exported for " + text + " and computes something else at other sizes: " +
                        axes_named(program, id) + " cannot be '" + name_of(id) + "'",
                    "leave the axis out of --dynamic, or compute the size from the input's shape in the model", place);
      }
      if (sizes.insert(id).second) fixed += (fixed.empty() ? "" : ", ") + axes_named(program, id);
    }
  }
  if (!fixed.empty()) {
    notes.push_back(warning(Code::baked_size,
                            "the program computes something else at other sizes of " + fixed +
                                " according to its guards: only the size of the example is valid",
                            "compute the size from the input's shape in the model", place));
  }
  if (!ranges.empty()) {
    notes.push_back(warning(Code::baked_size,
                            "the program is only valid if " + ranges + ": the model has conditions on sizes",
                            "export the program again from an example on the other side of the condition", place));
  }
  for (const SymbolId id : sizes) fix(program, id);
  std::erase_if(program.constraints, [&](const Constraint& each) {
    const auto symbols = symbols_of(each);
    return std::ranges::any_of(symbols, [&](SymbolId id) { return sizes.contains(id); });
  });
}

}  // namespace whence::pt2
