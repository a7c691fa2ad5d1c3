#include "annotator/lower/memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "annotator/lower/size_conditions.h"
#include "annotator/program/program_facts.h"
#include "schema/operator_facts.h"

namespace whence::lower {

// ---- reading ----------------------------------------------------------------------------------------------------

ValueId Memory::renamed(ValueId id) const {
  for (auto next = state_.renamed.find(id); next != state_.renamed.end(); next = state_.renamed.find(id)) {
    id = next->second;
  }
  return id;
}

const Memory::View* Memory::view(ValueId id) const {
  const auto found = state_.views.find(id);
  return found == state_.views.end() ? nullptr : &found->second;
}

const Memory::Choice* Memory::choice(ValueId id) const {
  const auto found = state_.choices.find(id);
  return found == state_.choices.end() ? nullptr : &found->second;
}

ValueId Memory::owner(ValueId id) const {
  for (const View* at = view(id); at != nullptr; at = view(id)) id = at->base;
  return id;
}

std::vector<ValueId> Memory::memories(ValueId id) const {
  std::vector<ValueId> found, open{id};
  while (!open.empty()) {
    const ValueId at = owner(open.back());
    open.pop_back();
    if (const Choice* choice = this->choice(at)) {
      for (auto each = choice->of.rbegin(); each != choice->of.rend(); ++each) open.push_back(each->tensor);
    } else if (std::ranges::find(found, at) == found.end()) {
      found.push_back(at);
    }
  }
  return found;
}

// Counts the writes to all memory that the value may be in.
int Memory::writes_to(ValueId id) const {
  const ValueId memory = owner(id);
  int sum = 0;
  if (const Choice* choice = this->choice(memory)) {
    for (const Alternative& each : choice->of) sum += writes_to(each.tensor);
    return sum;
  }
  const auto count = state_.writes.find(memory);
  return count == state_.writes.end() ? 0 : count->second;
}

const Failure* Memory::lost(ValueId id) const {
  for (const ValueId memory : memories(id)) {
    if (const auto why = state_.lost.find(memory); why != state_.lost.end()) return &why->second;
  }
  return nullptr;
}

ValueId Memory::newest(ValueId memory) const {
  const auto version = state_.versions.find(memory);
  return version == state_.versions.end() ? memory : version->second.value;
}

std::optional<MemoryPlace> Memory::layout(ValueId id) const {
  const View* at = view(id);
  if (at == nullptr) return row_major_place(program_, id);
  const auto base = layout(at->base);
  return !base || at->kind == ViewKind::same ? base : arrangement_of_view(program_, at->node, at->output, *base);
}

std::optional<MemoryPlace> Memory::place(ValueId id) const {
  if (const StatedPlace* stated = stated_place(program_, id)) return stated->place;
  if (const Choice* choice = this->choice(id)) return place_of_choice(id, *choice);
  if (unplaced_.contains(id)) return std::nullopt;
  const View* at = view(id);
  if (at == nullptr) {
    const auto model = placed_like_.find(id);
    return place_of_owner(program_, model == placed_like_.end() ? id : model->second);
  }
  const auto base = place(at->base);
  return !base || at->kind == ViewKind::same ? base : place_of_view(program_, at->node, at->output, *base);
}

// Returns the place of a choice; known only if all alternatives have the same strides.
std::optional<MemoryPlace> Memory::place_of_choice(ValueId id, const Choice& choice) const {
  std::optional<MemoryPlace> common;
  for (const Alternative& each : choice.of) {
    auto place = this->place(each.tensor);
    if (!place || (common && place->strides != common->strides)) return std::nullopt;
    common = std::move(place);
  }
  return MemoryPlace{id, Size::unknown(), common->sizes, common->strides};
}

// Returns true if elements of a view may overlap in memory: then its value does not determine the memory content.
bool Memory::repeats_elements(ValueId id) const {
  for (const View* at = view(id); at != nullptr; at = view(at->base)) {
    if (!facts_of(at->node.target).repeats_elements) continue;
    const auto place = layout(id);
    return !place || !has_distinct_elements(program_, *place);
  }
  return false;
}

// Returns true if the same operations produced both views: two separate y[1:] are the same place.
bool Memory::same_place(ValueId one, ValueId other) const {
  const auto view_of = [&](ValueId& id) {  // resolves the name through aliases
    const View* at = view(id);
    for (; at != nullptr && at->kind == ViewKind::same; at = view(id)) id = at->base;
    return at;
  };
  const View *a = view_of(one), *b = view_of(other);
  if (one == other) return true;
  if (a == nullptr || b == nullptr || a->kind != ViewKind::view || b->kind != ViewKind::view) return false;
  if (qualified(a->node) != qualified(b->node) || a->output != b->output || a->argument != b->argument) return false;
  const auto agree = [&](const NamedArgument& first, const NamedArgument& second) {
    return first.name == second.name && (first.name == a->argument || first.value == second.value);
  };
  return std::ranges::equal(a->node.arguments, b->node.arguments, agree) && same_place(a->base, b->base);
}

ValueId Memory::current(ValueId id) {
  if (choice(id) != nullptr) return current_choice(id);
  const View* at = view(id);
  const int writes = writes_to(id);
  const auto version = state_.versions.find(id);
  if (version != state_.versions.end() && version->second.writes == writes) return version->second.value;
  if (at == nullptr && writes == 0) return id;
  if (at != nullptr && at->kind == ViewKind::same) return current(at->base);
  if (const auto lost = state_.lost.find(owner(id)); lost != state_.lost.end()) {
    reports_.report(lost->second);
    return last_value(id);
  }
  return recompute_view(id);
}

ValueId Memory::recompute_view(ValueId id) {
  View stale = state_.views.at(id);  // a copy: recomputing its base may move it
  Node renewed = std::move(stale.node);
  const ValueId base = current(stale.base);
  for (NamedArgument& given : renewed.arguments) {
    if (given.name == stale.argument) given.value = Argument{ValueRef{base}};
  }
  for (ValueId& result : renewed.outputs) result = fresh_like(result);
  const ValueId value = renewed.outputs[stale.output];
  sink->push_back(std::move(renewed));
  state_.versions[id] = {value, writes_to(id)};
  return value;
}

ValueId Memory::current_choice(ValueId id) {
  const Choice choice = state_.choices.at(id);  // a copy: reading an alternative may move it
  std::vector<int> writes;
  std::vector<bool> stale;
  for (const Alternative& each : choice.of) {
    stale.push_back(writes_to(each.tensor) != choice.writes[writes.size()]);
    writes.push_back(writes_to(each.tensor));
  }
  const ValueId value = select_from(id, choice, stale, 0);
  Choice& now = state_.choices.at(id);
  now.value = value;
  now.writes = std::move(writes);
  return value;
}

// Returns the value of the choice if none of its alternatives before `first` is selected.
ValueId Memory::select_from(ValueId id, const Choice& choice, const std::vector<bool>& stale, std::size_t first) {
  if (std::find(stale.begin() + static_cast<std::ptrdiff_t>(first), stale.end(), true) == stale.end()) {
    return choice.value;
  }
  const Alternative& alternative = choice.of[first];
  if (first + 1 == choice.of.size()) return current(alternative.tensor);
  Node branch = branch_on(alternative.guard);
  const State before = state_;
  for (std::size_t side = 0; side < 2; ++side) {
    Block& block = branch.blocks[side];
    in_block(block.nodes, [&] {
      const bool taken = (side == 0) == alternative.guard.holds;
      const ValueId value = !taken         ? select_from(id, choice, stale, first + 1)
                            : stale[first] ? current(alternative.tensor)
                                           : choice.value;
      block.outputs.push_back({ValueRef{value}});
    });
    state_ = before;
  }
  branch.outputs.push_back(fresh_like(id));
  sink->push_back(std::move(branch));
  return sink->back().outputs.front();
}

void Memory::resolve(Argument& argument) {
  if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
    for (Argument& element : *list) resolve(element);
  } else if (auto* reference = std::get_if<ValueRef>(&argument.data)) {
    reference->id = current(renamed(reference->id));
  }
}

void Memory::resolve_shape(Argument& argument) {
  auto* reference = std::get_if<ValueRef>(&argument.data);
  const ValueId id = reference == nullptr ? none_id : renamed(reference->id);
  if (id == none_id || lost(id) == nullptr) return resolve(argument);
  reference->id = last_value(id);
}

// Returns an earlier value of `id`, which may lack writes but has the right shape.
ValueId Memory::last_value(ValueId id) const {
  const View* at = view(id);
  for (; at != nullptr && at->kind == ViewKind::same; at = view(id)) id = at->base;
  if (const Choice* choice = this->choice(id)) return choice->value;
  const auto version = state_.versions.find(id);
  if (version != state_.versions.end()) return version->second.value;
  return at == nullptr ? id : last_value(at->base);
}

// ---- blocks -----------------------------------------------------------------------------------------------------

bool Memory::is_defined_outside(ValueId id, int depth) const {
  const auto found = depth_of_.find(id);
  return found == depth_of_.end() || found->second <= depth;
}

void Memory::in_block(std::vector<Node>& nodes, const std::function<void()>& inside) {
  std::vector<Node>* enclosing = std::exchange(sink, &nodes);
  ++depth_;
  inside();
  --depth_;
  sink = enclosing;
}

std::vector<ValueId> Memory::written_since(std::size_t count) const {
  std::vector<ValueId> written;
  for (std::size_t i = count; i < log_.size(); ++i) {
    const bool known = std::ranges::find(written, log_[i]) != written.end();
    if (!known && is_defined_outside(log_[i], depth_)) written.push_back(log_[i]);
  }
  return written;
}

void Memory::fork(Node& branch, const std::function<void(std::size_t side)>& evaluate) {
  const State before = state_;
  const std::size_t count = write_count();
  std::vector<State> states_after;
  for (std::size_t side = 0; side < 2; ++side) {
    in_block(branch.blocks[side].nodes, [&] { evaluate(side); });
    states_after.push_back(std::exchange(state_, before));
  }
  for (const ValueId memory : written_since(count)) {
    std::optional<Failure> why;
    for (const State& side : states_after) {
      if (const auto lost = side.lost.find(memory); lost != side.lost.end()) why = lost->second;
    }
    if (why) {
      lose(memory, *why);
      continue;
    }
    for (std::size_t side = 0; side < 2; ++side) {
      const auto version = states_after[side].versions.find(memory);
      const ValueId value = version == states_after[side].versions.end() ? memory : version->second.value;
      branch.blocks[side].outputs.push_back({ValueRef{value}});
    }
    branch.outputs.push_back(fresh_like(memory));
    set_content(memory, branch.outputs.back());
    recover(memory);
  }
}

Node Memory::branch_on(const Guard& guard) const {
  Node branch;
  branch.target = "prim::If";
  branch.arguments.push_back({"condition", guard.condition});
  branch.origin = origin;
  branch.blocks.resize(2);
  return branch;
}

Argument Memory::select(const Guard& guard, const Argument& first, const Argument& second) {
  const Argument &then = guard.holds ? first : second, &otherwise = guard.holds ? second : first;
  if (first == second) return first;
  if (const auto* known = guard.condition.as<bool>()) return *known ? then : otherwise;
  const Argument yes{true}, no{false};
  if (then == yes && otherwise == no) return guard.condition;
  Node branch = branch_on({guard.condition, true});
  branch.blocks[0].outputs = {then};
  branch.blocks[1].outputs = {otherwise};
  const auto* value = (then.as<ValueRef>() != nullptr ? then : otherwise).as<ValueRef>();
  branch.outputs = {value != nullptr ? fresh_like(value->id)
                                     : fresh("guard", {ValueKind::boolean, DType::boolean, std::nullopt})};
  sink->push_back(std::move(branch));
  return {ValueRef{sink->back().outputs.front()}};
}

// ---- names and views --------------------------------------------------------------------------------------------

void Memory::add_views(const Node& node, const std::vector<ValueId>& bases, const ViewInfo& view) {
  if (view.kind == ViewKind::perhaps) {
    const Failure why = reports_.refusal(
        node,
        "its argument or its result is written to, the other one is read later, and sizes or strides decide whether "
        "they share memory");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      doubt(node.outputs[i], bases[i], why);
      unplaced_.insert(node.outputs[i]);
      if (repeats_elements(bases[i]) || is_repeating(owner(bases[i]))) repeat(node.outputs[i], why);
      if (!facts_of(node.target).repeats_elements) continue;
      const Type &type = program_.values[node.outputs[i]].type, &base = program_.values[bases[i]].type;
      if (!program::same_shape(type, base)) state_.repeating.emplace(node.outputs[i], why);
    }
    return;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    state_.views[node.outputs[i]] = {bases[i], view.kind, node, i, view.argument};
    state_.versions[node.outputs[i]] = {node.outputs[i], writes_to(bases[i])};
  }
}

void Memory::add_possible_view(const Node& node, ValueId base, const std::string& argument, const Guard& guard) {
  const ValueId result = node.outputs.front(), view = fresh_like(result), own = fresh_like(result);
  state_.views[view] = {base, ViewKind::view, node, 0, argument};
  state_.versions[view] = {result, writes_to(base)};
  allocate(own, result);
  choose(result, {{{guard, view}, {{}, own}}, own}, result);
}

void Memory::choose(ValueId name, Choice choice, ValueId value) {
  choice.value = value;
  choice.writes.clear();
  for (const Alternative& each : choice.of) choice.writes.push_back(writes_to(each.tensor));
  state_.choices.insert_or_assign(name, std::move(choice));
}

void Memory::alias(ValueId result, ValueId self) {
  if (result != none_id) state_.views[result] = {self, ViewKind::same, {}, 0, ""};
}

void Memory::redirect(ValueId name, ValueId other) {
  if (name != none_id && name != other) state_.renamed[name] = other;
}

void Memory::rename(ValueId self, ValueId result, Node view) {
  const ValueId renewed = view.outputs.front();
  add_views(view, {self}, {ViewKind::view, "self", {self}});
  redirect(self, renewed);
  redirect(result, renewed);
  sink->push_back(std::move(view));
}

// ---- writing ----------------------------------------------------------------------------------------------------

bool Memory::holds_all_writes(ValueId id) const {
  if (const Choice* choice = this->choice(id)) {
    return std::ranges::equal(choice->of, choice->writes,
                              [this](const Alternative& each, int writes) { return writes_to(each.tensor) == writes; });
  }
  const auto version = state_.versions.find(id);
  return version != state_.versions.end() && version->second.writes == writes_to(id);
}

void Memory::put(ValueId self, ValueId written) {
  const ValueId memory = owner(self), first = self;
  const std::vector<ValueId> untouched = untouched_by(self);
  std::vector<std::pair<ValueId, ValueId>> renewed{{self, written}};
  ValueId value = written;
  for (const View* at = view(self); at != nullptr; at = view(self)) {
    const View through = *at;
    if (const Failure* known = lost(memory); known != nullptr && !holds_all_writes(through.base)) {
      const Failure why = *known;  // a copy: it may move
      for (const ValueId each : memories(memory)) state_.lost.emplace(each, why);
      keep_other_parts(first);
      break;
    }
    const std::optional<ValueId> base = written_base(through, value);
    if (!base) {
      const Failure why = reports_.refusal(through.node,
                                           "a write through this view changes its base, which is read "
                                           "later, but no operator expresses such a write");
      for (const ValueId each : memories(memory)) state_.lost.emplace(each, why);
      std::erase_if(renewed, [&](const auto& each) { return repeats_elements(each.first); });
      keep_other_parts(first);
      break;
    }
    value = *base;
    self = through.base;
    renewed.emplace_back(self, value);
  }
  if (choice(memory) == nullptr) {
    if (self == memory && view(first) == nullptr) recover(memory);
    count_write(first);
    const auto repeats = state_.repeating.find(memory);
    if (repeats != state_.repeating.end()) {
      state_.lost.insert_or_assign(memory, repeats->second);
      renewed.clear();
    }
  } else if (self == memory) {
    if (!put_choice(memory, value)) renewed.clear();
  } else {
    for (const ValueId each : memories(memory)) count_write(each);
  }
  const int writes = writes_to(memory);
  for (const auto& [id, newest] : renewed) {
    if (choice(id) == nullptr) state_.versions[id] = {newest, writes};
  }
  keep(untouched);
}

// Returns the views of memory that may be written, and the choices among them, that hold all writes so far and are not
// affected by this one. Without choices, all views are recomputed when they are read.
std::vector<ValueId> Memory::untouched_by(ValueId written) const {
  std::vector<ValueId> untouched;
  if (state_.choices.empty()) return untouched;
  std::vector<ValueId> places{written};  // all tensors that the name may denote
  const auto chosen = [&](ValueId id) { return choice(owner(id)); };
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (const Choice* choice = chosen(places[i])) {
      for (const Alternative& each : choice->of) {
        if (std::ranges::find(places, each.tensor) == places.end()) places.push_back(each.tensor);
      }
    }
  }
  std::erase_if(places, chosen);
  const auto apart = [&](ValueId id) {
    return std::ranges::all_of(places, [&](ValueId at) { return owner(at) != owner(id) || disjoint(at, id); });
  };
  std::vector<ValueId> memories = this->memories(written);
  for (const auto& [id, version] : state_.versions) {
    const bool concerned = view(id) != nullptr && std::ranges::find(memories, owner(id)) != memories.end();
    if (concerned && holds_all_writes(id) && apart(id)) untouched.push_back(id);
  }
  for (const Suspect& other : possible_aliases(written)) memories.push_back(other.memory);
  for (const auto& [id, choice] : state_.choices) {
    if (!holds_all_writes(id)) continue;
    const auto stays = [&](const Alternative& each) {
      return std::ranges::find(untouched, each.tensor) != untouched.end() ||
             (chosen(each.tensor) == nullptr && std::ranges::find(memories, owner(each.tensor)) == memories.end());
    };
    if (std::ranges::all_of(choice.of, stays)) untouched.push_back(id);
  }
  return untouched;
}

void Memory::keep(const std::vector<ValueId>& untouched) {
  for (const ValueId id : untouched) {
    const auto choice = state_.choices.find(id);
    if (choice == state_.choices.end()) {
      state_.versions[id].writes = writes_to(id);
      continue;
    }
    for (std::size_t i = 0; i < choice->second.of.size(); ++i) {
      choice->second.writes[i] = writes_to(choice->second.of[i].tensor);
    }
  }
}

std::optional<ValueId> Memory::written_base(const View& view, ValueId value) {
  if (view.kind == ViewKind::same) return value;
  const ValueId old_base = current(view.base);
  std::vector<ValueId> tensors{old_base};
  for (const ValueId part : view.node.outputs) {
    if (this->view(part) != nullptr) tensors.push_back(part);  // otherwise it belongs to a block that has ended
  }
  SizeConditions sizes(program_, *this, std::move(tensors));
  const WriteSteps steps{[&](const Size& size) { return sizes.number(size); },
                         [&](Node node, const Type& type) {
                           const ValueId result = fresh(program_.values[view.base].name, type);
                           node.outputs = {result};
                           sink->push_back(std::move(node));
                           return result;
                         }};
  std::optional<Node> scatter = write_through(program_, view.node, view.output, view.argument, old_base, value, steps);
  if (!scatter) return std::nullopt;
  const ValueId base = fresh_like(view.base);
  scatter->outputs = {base};
  sink->push_back(std::move(*scatter));
  return base;
}

// Returns false if elements of an alternative may overlap: then the choice, and views of it, are read from its
// alternatives.
bool Memory::put_choice(ValueId id, ValueId written) {
  const Choice choice = state_.choices.at(id);
  if (choice.own != none_id) put(choice.own, written);  // no other name reads it
  put_from(choice, 0, written);
  const auto repeats = [this](const Alternative& each) {
    return repeats_elements(each.tensor) || state_.repeating.contains(owner(each.tensor));
  };
  if (std::ranges::any_of(choice.of, repeats)) return false;
  choose(id, choice, written);
  return true;
}

// Writes to the alternatives from `first` on, each under its condition.
void Memory::put_from(const Choice& choice, std::size_t first, ValueId written) {
  const auto is_written = [&](const Alternative& each) { return each.tensor == choice.own; };
  if (std::all_of(choice.of.begin() + static_cast<std::ptrdiff_t>(first), choice.of.end(), is_written)) return;
  const Alternative& alternative = choice.of[first];
  if (first + 1 == choice.of.size()) return put(alternative.tensor, written);
  Node branch = branch_on(alternative.guard);
  fork(branch, [&](std::size_t side) {
    const bool taken = (side == 0) == alternative.guard.holds;
    if (!taken) return put_from(choice, first + 1, written);
    if (!is_written(alternative)) put(alternative.tensor, written);
  });
  if (!branch.outputs.empty()) sink->push_back(std::move(branch));
}

void Memory::set_content(ValueId memory, ValueId value) {
  count_write(memory);
  state_.versions[memory] = {value, writes_to(memory)};
}

void Memory::allocate(ValueId memory, ValueId value) { state_.versions[memory] = {value, writes_to(memory)}; }

// Returns true for parts of one tensor without common elements, and for views of them: results of one unbind or split,
// and separate ranges. Parts of overlapping windows may have common elements.
bool Memory::disjoint(ValueId one, ValueId other) const {
  const auto path = [&](ValueId id) {  // the chain of views from `id` to its owner
    std::vector<const View*> views;
    for (const View* at = view(id); at != nullptr; at = view(at->base)) {
      if (at->kind != ViewKind::same) views.push_back(at);
    }
    return views;
  };
  const auto to_one = path(one), to_other = path(other);
  auto a = to_one.rbegin(), b = to_other.rbegin();
  const auto are_left = [&] { return a != to_one.rend() && b != to_other.rend(); };
  while (are_left() && (*a)->node.outputs == (*b)->node.outputs && (*a)->output == (*b)->output) ++a, ++b;
  if (!are_left() || (*a)->base != (*b)->base) return false;
  const auto part = [&](auto step, const auto& end) {
    auto place = with_separate_axes(program_, (*step)->base);
    for (; place && step != end; ++step) place = arrangement_of_view(program_, (*step)->node, (*step)->output, *place);
    return place;
  };
  if (!repeats_elements((*a)->base)) {
    if ((*a)->node.outputs == (*b)->node.outputs) return true;
    const auto place = part(a, to_one.rend()), other_place = part(b, to_other.rend());
    if (place && other_place && have_separate_ranges(program_, *place, *other_place)) return true;
  }
  const auto one_layout = layout(one), other_layout = layout(other);
  return one_layout && other_layout && are_disjoint(program_, *one_layout, *other_layout);
}

// Returns true if a write to `value` may be a write to the memory of the suspect, which `other.through` may be in.
bool Memory::meets(ValueId value, const Suspect& other) const {
  const std::vector<ValueId> reached = memories(value);
  return std::ranges::find(reached, other.memory) != reached.end();
}

std::vector<Memory::Suspect> Memory::possible_aliases(ValueId value) const {
  std::vector<Suspect> found;
  if (state_.doubts.empty()) return found;
  const std::vector<ValueId> own = memories(value);
  for (const ValueId memory : own) found.push_back({memory, value, {}});
  const auto add = [&](ValueId through, const Failure& why) {
    for (const ValueId memory : memories(through)) {
      const auto known = [&](const Suspect& each) { return each.through == through && each.memory == memory; };
      if (std::ranges::none_of(found, known)) found.push_back({memory, through, why});
    }
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Suspect from = found[i];
    for (const Doubt& doubt : state_.doubts) {
      if (meets(doubt.result, from)) add(doubt.argument, doubt.why);
      if (meets(doubt.argument, from) && !disjoint(doubt.argument, from.through)) add(doubt.result, doubt.why);
    }
  }
  std::erase_if(found, [&](const Suspect& each) { return std::ranges::find(own, each.memory) != own.end(); });
  return found;
}

// Keeps the parts of the memory that have no element in common with the value: the next write leaves them valid.
void Memory::keep_other_parts(ValueId value) {
  const ValueId memory = owner(value);
  if (choice(memory) != nullptr) return;
  const int writes = writes_to(memory);
  for (auto& [id, version] : state_.versions) {
    if (version.writes == writes && owner(id) == memory && disjoint(id, value)) ++version.writes;
  }
}

// From here on the content of the value's memory is unknown, except for parts without common elements.
void Memory::forget(ValueId value) {
  keep_other_parts(value);
  for (const ValueId memory : memories(value)) {
    ++state_.writes[memory];
    log_.push_back(memory);
  }
}

void Memory::forget_suspects(ValueId written) {
  for (const Suspect& other : possible_aliases(written)) {
    forget(other.through);
    state_.lost.emplace(other.memory, other.why);
  }
}

// Counts a write. The content of memory that may be the same becomes unknown.
void Memory::count_write(ValueId written) {
  forget_suspects(written);
  const ValueId memory = owner(written);
  ++state_.writes[memory];
  log_.push_back(memory);
}

void Memory::lose(ValueId value, const Failure& why) {
  forget_suspects(value);
  forget(value);
  for (const ValueId memory : memories(value)) state_.lost.insert_or_assign(memory, why);
}

ValueId Memory::fresh(const std::string& name, Type type) {
  Value value;
  value.name = name + "." + std::to_string(program_.values.size());
  value.type = std::move(type);
  program_.values.push_back(std::move(value));
  const auto id = static_cast<ValueId>(program_.values.size() - 1);
  define(id);
  return id;
}

ValueId Memory::fresh_like(ValueId like) {
  return fresh(program_.values[like].name, program_.values[like].type);  // copies, because the list may move
}

}  // namespace whence::lower
