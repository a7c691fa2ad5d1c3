// Derives the layout of all tensors in execution order, through branches, loops and in-place changes of shape.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "schema/place.h"

namespace whence {

namespace {

class Placing {
 public:
  Placing(Program& program, const PlaceWitness& witness) : program_(program), witness_(witness) {}

  void run() {
    for (const ValueId id : program_.values.keys()) {
      const ValueSource source = program_.values[id].source;
      const bool from_node = source == ValueSource::node || source == ValueSource::block_input;
      if (!from_node) settle(id, row_major_place(program_, id), true);
    }
    follow(program_.body);
    std::ranges::stable_sort(stated_, {}, &StatedPlace::value);
    program_.places = std::move(stated_);
    program_.placed = true;
  }

 private:
  using Found = std::optional<MemoryPlace>;

  bool is_tensor(ValueId id) const { return program_.values[id].type.kind == ValueKind::tensor; }

  Found of(ValueId id) const {
    const auto found = places_.find(id);
    return found == places_.end() ? row_major_place(program_, id) : found->second;
  }
  Found of(const Argument& argument) const {
    const auto* value = argument.as<ValueRef>();
    return value == nullptr || !is_tensor(value->id) ? std::nullopt : of(value->id);
  }

  // Sets the layout of a tensor and states it if it differs from the default. The default is `derived` if `by_rules`,
  // because readers of the program can derive it; otherwise row-major.
  void settle(ValueId id, const Found& derived, bool by_rules) {
    if (!is_tensor(id)) return;
    const Found place = witness_(id, derived), rule = by_rules ? derived : row_major_place(program_, id);
    places_[id] = place;
    if (place != rule) stated_.push_back({id, place});
  }

  void follow(const Block& block) {
    for (const Node& node : block.nodes) follow(node);
  }

  void follow(const Node& node) {
    if (node.target == "prim::Loop") return follow_loop(node);
    for (const Block& block : node.blocks) follow(block);
    if (node.target == "prim::If") return follow_branch(node);
    if (!node.outputs.empty() && !node.arguments.empty() && follow_write(node)) return;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (is_tensor(node.outputs[i])) settle(node.outputs[i], derived(node, i), true);
    }
  }

  // Handles operators that write to a tensor and return it: x.add_(1) keeps the layout, x.t_() changes it. Returns
  // false for other operators.
  bool follow_write(const Node& node) {
    const Argument* out = node.overload.ends_with("out") ? node.find("out") : nullptr;
    const Argument& written = out != nullptr ? *out : node.arguments.front().value;
    if (out == nullptr && !is_in_place_name(node.target)) return false;
    const auto* self = written.as<ValueRef>();
    Found place = of(written);
    const std::string view = node.target.substr(0, node.target.size() - 1);
    if (out == nullptr && facts_of(view).view != ViewForm::none) {
      Node moved = node;
      moved.target = view;
      if (place) place = place_of_view(program_, moved, 0, *place);
    } else if (node.target == "aten::set_" || node.target == "aten::resize_") {
      const Argument* source = node.find("source");
      place = source == nullptr ? std::nullopt : of(*source);
    }
    if (self != nullptr) places_[self->id] = place;
    for (const ValueId output : node.outputs) places_[output] = place;
    return true;
  }

  Found derived(const Node& node, std::size_t output) {
    const ValueId id = node.outputs[output];
    if (node.arguments.empty()) return row_major_place(program_, id);
    const Argument& first = node.arguments.front().value;
    const bool by_strides = shares_by_strides(node);
    if (by_strides) {
      const Found base = of(first);
      const Sharing sharing = sharing_of(program_, node, base);
      if (sharing.kind == Sharing::Kind::copy) return row_major_place(program_, id);
      if (sharing.kind != Sharing::Kind::view) return std::nullopt;
    }
    if (returns_argument(program_, node)) return of(first);
    const OperatorFacts& facts = facts_of(node.target);
    const auto* elements = facts.memory == ResultMemory::elements ? first.as<ArgumentList>() : nullptr;
    const bool of_element = elements != nullptr && facts.view != ViewForm::none && output < elements->size();
    if (!by_strides && !of_element && facts.memory != ResultMemory::view) return row_major_place(program_, id);
    const Found base = of(of_element ? (*elements)[output] : first);
    return base ? place_of_view(program_, node, output, *base) : std::nullopt;
  }

  // The result is row-major if it is row-major in both branches; otherwise the layout is unknown.
  void follow_branch(const Node& node) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      std::vector<Found> ends;
      for (const Block& side : node.blocks)
        ends.push_back(i < side.outputs.size() ? of(side.outputs[i]) : std::nullopt);
      settle(node.outputs[i], joined(node.outputs[i], ends), false);
    }
  }

  Found joined(ValueId id, const std::vector<Found>& ends) const {
    Found place = row_major_place(program_, id);
    for (const Found& end : ends) {
      if (!place || !end || !is_row_major(*end)) return std::nullopt;
      if (end->offset != Size(0)) place->offset = Size::unknown();
    }
    return place;
  }

  // A loop variable is row-major if it is row-major at the start and after each iteration. Repeats until no variable
  // changes, because one variable with an unknown layout can make others unknown.
  void follow_loop(const Node& node) {
    const Block& body = node.blocks[0];
    const auto* initial = node.find("initial")->as<ArgumentList>();
    std::vector<Found> starts;
    for (const Argument& start : *initial) starts.push_back(joined(body.inputs[starts.size() + 1], {of(start)}));
    const std::size_t before = stated_.size();
    for (std::vector<Found> ends; ends != starts;) {
      if (!ends.empty()) starts = std::move(ends);
      stated_.resize(before);
      for (std::size_t i = 0; i < starts.size(); ++i) settle(body.inputs[i + 1], starts[i], false);
      follow(body);
      ends.clear();
      for (std::size_t i = 0; i < starts.size(); ++i) {
        ends.push_back(joined(body.inputs[i + 1], {starts[i], of(body.outputs[i + 1])}));
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      settle(node.outputs[i],
             i < starts.size() ? joined(node.outputs[i], {starts[i]}) : row_major_place(program_, node.outputs[i]),
             false);
    }
  }

  Program& program_;
  const PlaceWitness& witness_;
  std::unordered_map<ValueId, Found> places_;
  std::vector<StatedPlace> stated_;
};

}  // namespace

void place_tensors(Program& program, const PlaceWitness& witness) { Placing(program, witness).run(); }

void renumber_places(Program& program, const IndexedVector<ValueId, ValueId>& renumbered) {
  std::erase_if(program.places, [&](StatedPlace& each) {
    each.value = renumbered[each.value];
    if (each.value == none_id || !each.place) return each.value == none_id;
    bool removed = false;
    const auto number = [&](ValueId& id) { removed |= (id = renumbered[id]) == none_id; };
    const auto renamed = [&](const Size& size) {
      return size.with([&](SymbolId symbol) {
        auto local = local_size(symbol);
        if (local) number(local->value);
        return local ? local_symbol(*local) : Size::symbol(symbol);
      });
    };
    number(each.place->memory);
    each.place->offset = renamed(each.place->offset);
    for (Size& size : each.place->sizes) size = renamed(size);
    for (Size& stride : each.place->strides) stride = renamed(stride);
    if (removed) each.place.reset();
    return false;
  });
}

}  // namespace whence
