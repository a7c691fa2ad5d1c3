#include "annotator/pt2/open_sizes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "schema/operator_facts.h"
#include "schema/place.h"
#include "schema/shape_functions.h"
#include "schema/squeeze.h"

namespace whence::pt2 {

namespace {

class OpenSizes {
 public:
  OpenSizes(Program& program, const Place& place, Diagnostics& notes)
      : program_(program), place_(place), notes_(notes) {
    facts_ = {[this](ValueId id) { return shape_of(id); }, [this](ValueId id) { return number_of(id); },
              [this](ValueId id) { return program_.values[id].type.dtype == DType::boolean; },
              [this](SymbolId id) { return range_of(program_.symbols[id]); }};
  }

  // Records the ranges that the archive states as assumptions: all derived sizes are valid within them.
  void assume_ranges() {
    std::set<SymbolId> of_inputs;
    for (const ProgramInput& input : program_.inputs) {
      const Shape* shape = shape_of(input.value);
      for (std::size_t axis = 0; shape != nullptr && axis < shape->size(); ++axis) {
        const auto symbols = (*shape)[axis].symbols();
        of_inputs.insert(symbols.begin(), symbols.end());
      }
    }
    for (const SymbolId id : of_inputs) {
      const SizeRange stated = range_of(program_.symbols[id]);
      if (stated.min == 0 || stated.min == stated.max) continue;
      assume(program_, {{{Size::symbol(id), Relation::at_least, stated.min}}});
    }
  }

  void visit(const Block& block) {
    for (const Node& node : block.nodes) {
      for (const Block& inner : node.blocks) visit(inner);
      follow(node);
      if (node.target == "aten::squeeze") look_at_squeeze(node);
    }
  }

 private:
  const Shape* shape_of(ValueId id) {
    const Type& type = program_.values[id].type;
    static const Shape none;
    if (is_scalar(type.kind)) return &none;
    if (!type.dims || type.kind != ValueKind::tensor) return nullptr;
    const auto [shape, is_new] = shapes_.try_emplace(id);
    if (is_new) {
      for (const Dim& dim : *type.dims) shape->second.push_back(length_of(program_.symbols, dim));
    }
    return &shape->second;
  }

  Size number_of(ValueId id) const {
    const auto number = numbers_.find(id);
    return number == numbers_.end() ? Size::unknown() : number->second;
  }

  void follow(const Node& node) {
    if (node.outputs.size() == 1 && program_.values[node.outputs[0]].type.kind == ValueKind::integer) {
      numbers_[node.outputs[0]] = number_of_result(node, facts_);
    }
    std::optional<std::vector<Shape>> derived;
    const auto* self = node.arguments.empty() ? nullptr : node.arguments.front().value.as<ValueRef>();
    if (!is_in_place_name(node.target)) {
      derived = shapes_of_results(node, facts_);
    } else if (const Shape* shape = self == nullptr ? nullptr : shape_of(self->id)) {
      derived.emplace(1, *shape);  // an in-place operator returns its argument
    }
    std::size_t next = 0;
    for (const ValueId id : node.outputs) {
      if (program_.values[id].type.kind != ValueKind::tensor) continue;
      if (!derived || next == derived->size()) return;
      open(id, (*derived)[next++]);
    }
  }

  void open(ValueId id, const Shape& derived) {
    auto& dims = program_.values[id].type.dims;
    const Shape* stated = shape_of(id);
    if (!dims || stated == nullptr || derived.size() != dims->size()) return;
    Shape& shape = shapes_[id];
    for (std::size_t axis = 0; axis < dims->size(); ++axis) {
      Dim& dim = (*dims)[axis];
      if (!derived[axis].is_known()) continue;
      if (!dim.is_static()) {
        look_at_length((*stated)[axis], derived[axis]);
        continue;
      }
      const SizeRange range = range_of(derived[axis], facts_.ranges);
      if (range.min == dim.size && range.max == dim.size) continue;
      dim = {dim.size, true, symbol_of(derived[axis], dim.size)};
      shape[axis] = derived[axis];
    }
  }

  // Returns the symbol of a size derived from axes, so that later passes can decide whether a write broadcasts to it.
  SymbolId symbol_of(const Size& size, std::int64_t number) {
    if (size.is_integer() || !depends_on_axes_only(program_, size)) return none_id;
    if (const auto single = size.single_symbol()) return *single;
    const auto [symbol, is_new] = derived_.try_emplace(size, SymbolId(program_.symbols.size()));
    if (is_new) {
      program_.symbols.push_back({"", number, {}, {}, SymbolKind::derived, size});
      name_derived(program_.symbols, symbol->second);
    }
    return symbol->second;
  }

  // The archive states s - 1 as the length of x[1:] and computes with it, which is right only if it is not negative.
  void look_at_length(const Size& stated, const Size& derived) {
    if (stated == derived || derived != maximum({0, stated})) return;
    assume(program_, {{{stated, Relation::at_least, 0}}});
  }

  // squeeze drops an axis of size 1. The archive keeps a dynamic axis, and drops x[:1], which may be empty.
  void look_at_squeeze(const Node& node) {
    const auto* self = node.arguments.front().value.as<ValueRef>();
    const Shape* before = self == nullptr ? nullptr : shape_of(self->id);
    if (before == nullptr || node.outputs.size() != 1) return;
    const Shape* after = shape_of(node.outputs.front());
    if (after == nullptr) return;
    const bool kept = after->size() == before->size();
    for (const std::size_t axis : squeezed_axes(node, before->size())) {
      const Size& size = (*before)[axis];
      if (size.is_integer() || !may_be(size, kept ? 1 : 0, facts_.ranges)) continue;
      Place place = place_;
      place.op = qualified(node);
      const SqueezedAxis how = kept ? SqueezedAxis::kept : SqueezedAxis::dropped_unless_empty;
      SettledSqueeze settled = settled_squeeze(program_, how, axis, size, "as the archive says", place);
      notes_.push_back(std::move(settled.warning));
      if (settled.assumed) assume(program_, *std::move(settled.assumed));
    }
  }

  Program& program_;
  const Place& place_;
  Diagnostics& notes_;
  ShapeFacts facts_;
  std::unordered_map<ValueId, Shape> shapes_;
  std::unordered_map<ValueId, Size> numbers_;
  std::map<Size, SymbolId> derived_;
};

}  // namespace

void open_sizes(Program& program, const Place& place, Diagnostics& notes) {
  if (program.symbols.empty()) return;
  OpenSizes sizes(program, place, notes);
  sizes.assume_ranges();
  sizes.visit(program.body);
}

}  // namespace whence::pt2
