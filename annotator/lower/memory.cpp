#include "annotator/lower/memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

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

ValueId Memory::owner(ValueId id) const {
  for (auto view = state_.views.find(id); view != state_.views.end(); view = state_.views.find(id)) {
    id = view->second.base;
  }
  return id;
}

std::vector<ValueId> Memory::owners(const std::vector<ValueId>& values) const {
  std::vector<ValueId> memory;
  for (const ValueId value : values) {
    const ValueId own = owner(renamed(value));
    if (std::find(memory.begin(), memory.end(), own) == memory.end()) memory.push_back(own);
  }
  return memory;
}

int Memory::writes_to(ValueId memory) const {
  const auto count = state_.writes.find(memory);
  return count == state_.writes.end() ? 0 : count->second;
}

std::optional<MemoryLayout> Memory::layout(ValueId id) const {
  const auto found = state_.views.find(id);
  const auto doubtful = [&](const Doubt& doubt) { return doubt.result == id; };
  if (std::ranges::any_of(state_.doubts, doubtful)) return std::nullopt;
  if (found == state_.views.end()) return owner_layout(program_, id);
  const View& view = found->second;
  const auto base = layout(view.base);
  return !base || view.kind == ViewKind::same ? base : view_layout(program_, view.node, view.output, *base);
}

// True if several elements of a view share a place in memory: the value alone does not tell what is written there.
bool Memory::repeats_elements(ValueId id) const {
  if (const auto lies = layout(id)) return lies->repeats_elements();
  for (auto view = state_.views.find(id); view != state_.views.end(); view = state_.views.find(view->second.base)) {
    if (facts_of(view->second.node.target).repeats_elements) return true;
  }
  return false;
}

// By the operations that made the two: y[1:] is y[1:].
bool Memory::same_place(ValueId one, ValueId other) const {
  const auto view_of = [&](ValueId& id) {  // goes on to what the name stands for
    auto view = state_.views.find(id);
    for (; view != state_.views.end() && view->second.kind == ViewKind::same; view = state_.views.find(id)) {
      id = view->second.base;
    }
    return view == state_.views.end() ? nullptr : &view->second;
  };
  const View *a = view_of(one), *b = view_of(other);
  if (one == other) return true;
  if (a == nullptr || b == nullptr || a->kind != ViewKind::view || b->kind != ViewKind::view) return false;
  if (qualified(a->node) != qualified(b->node) || a->output != b->output || a->argument != b->argument) return false;
  const auto agree = [&](const NamedArgument& given, const NamedArgument& too) {
    return given.name == too.name && (given.name == a->argument || given.value == too.value);
  };
  return std::ranges::equal(a->node.arguments, b->node.arguments, agree) && same_place(a->base, b->base);
}

ValueId Memory::current(ValueId id) {
  const auto view = state_.views.find(id);
  const ValueId memory = owner(id);
  const int writes = writes_to(memory);
  const auto version = state_.versions.find(id);
  if (version != state_.versions.end() && version->second.writes == writes) return version->second.value;
  if (view == state_.views.end() && writes == 0) return id;
  if (view != state_.views.end() && view->second.kind == ViewKind::same) return current(view->second.base);
  if (const auto lost = state_.lost.find(memory); lost != state_.lost.end()) {
    reports_.report(lost->second);
    return version == state_.versions.end() ? id : version->second.value;
  }
  return made_anew(id, writes);
}

ValueId Memory::made_anew(ValueId id, int writes) {
  View stale = state_.views.at(id);  // a copy: making its base anew may move it
  Node renewed = std::move(stale.node);
  const ValueId base = current(stale.base);
  for (NamedArgument& given : renewed.arguments) {
    if (given.name == stale.argument) given.value = Argument{ValueRef{base}};
  }
  for (ValueId& result : renewed.outputs) result = fresh_like(result);
  const ValueId value = renewed.outputs[stale.output];
  sink->push_back(std::move(renewed));
  state_.versions[id] = {value, writes};
  return value;
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
  if (id == none_id || !state_.lost.contains(owner(id))) return resolve(argument);
  const auto version = state_.versions.find(id);
  reference->id = version == state_.versions.end() ? id : version->second.value;
}

std::vector<ValueId> Memory::newest(const std::vector<ValueId>& memory,
                                    std::unordered_map<ValueId, Diagnostic>& lost) const {
  std::vector<ValueId> values;
  for (const ValueId each : memory) {
    const auto why = state_.lost.find(each);
    if (why != state_.lost.end()) lost.insert(*why);
    const auto version = state_.versions.find(each);
    values.push_back(version == state_.versions.end() ? each : version->second.value);
  }
  return values;
}

// ---- names and views --------------------------------------------------------------------------------------------

void Memory::add_views(const Node& node, const std::vector<ValueId>& bases, const ViewInfo& view) {
  if (view.kind == ViewKind::perhaps) {
    const Diagnostic why = reports_.refusal(
        node,
        "what it was made from or its result is written to, the other of the two is read later, and whether they "
        "share memory depends on sizes or strides");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) doubt(node.outputs[i], bases[i], why);
    return;
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    state_.views[node.outputs[i]] = {bases[i], view.kind, node, i, view.argument};
    state_.versions[node.outputs[i]] = {node.outputs[i], writes_to(owner(bases[i]))};
  }
}

void Memory::alias(ValueId result, ValueId self) {
  if (result != none_id) state_.views[result] = {self, ViewKind::same, {}, 0, ""};
}

void Memory::stand_for(ValueId name, ValueId other) {
  if (name != none_id && name != other) state_.renamed[name] = other;
}

void Memory::rename(ValueId self, ValueId result, Node view) {
  const ValueId renewed = view.outputs.front();
  add_views(view, {self}, {ViewKind::view, "self", {self}});
  stand_for(self, renewed);
  stand_for(result, renewed);
  sink->push_back(std::move(view));
}

// ---- writing ----------------------------------------------------------------------------------------------------

bool Memory::holds_all_writes(ValueId id) const {
  const auto version = state_.versions.find(id);
  return version != state_.versions.end() && version->second.writes == writes_to(owner(id));
}

void Memory::put(ValueId self, ValueId written) {
  const ValueId memory = owner(self), first = self;
  std::vector<std::pair<ValueId, ValueId>> renewed{{self, written}};
  ValueId value = written;
  for (auto view = state_.views.find(self); view != state_.views.end(); view = state_.views.find(self)) {
    const View through = view->second;
    if (state_.lost.contains(memory) && !holds_all_writes(through.base)) {
      keep_other_parts(first);
      break;
    }
    const std::optional<ValueId> base = written_base(through, value);
    if (!base) {
      state_.lost.emplace(memory, reports_.refusal(through.node,
                                                   "a write through this view changes its base, which is read "
                                                   "later, and no operator expresses that"));
      std::erase_if(renewed, [&](const auto& each) { return repeats_elements(each.first); });
      keep_other_parts(first);
      break;
    }
    value = *base;
    self = through.base;
    renewed.emplace_back(self, value);
  }
  if (self == memory && state_.views.find(renewed.front().first) == state_.views.end()) recover(memory);
  const int writes = count_write(first);
  for (const auto& [id, newest] : renewed) state_.versions[id] = {newest, writes};
}

std::optional<ValueId> Memory::written_base(const View& view, ValueId value) {
  if (view.kind == ViewKind::same) return value;
  const ValueId old_base = current(view.base);
  std::optional<Node> scatter = write_through(program_, view.node, view.output, view.argument, old_base, value);
  if (!scatter) return std::nullopt;
  const ValueId base = fresh_like(view.base);
  scatter->outputs = {base};
  sink->push_back(std::move(*scatter));
  return base;
}

void Memory::now_holds(ValueId memory, ValueId value) { state_.versions[memory] = {value, count_write(memory)}; }

// True for parts of one tensor that do not meet, and views of such: results of one unbind or split, and ranges.
bool Memory::disjoint(ValueId one, ValueId other) const {
  const auto path = [&](ValueId id) {  // the views that lead to it, the first one last
    std::vector<const View*> views;
    for (auto view = state_.views.find(id); view != state_.views.end(); view = state_.views.find(view->second.base)) {
      if (view->second.kind != ViewKind::same) views.push_back(&view->second);
    }
    return views;
  };
  const auto to_one = path(one), to_other = path(other);
  auto a = to_one.rbegin(), b = to_other.rbegin();
  while (a != to_one.rend() && b != to_other.rend() && (*a)->node.outputs == (*b)->node.outputs) {
    if ((*a)->output != (*b)->output) return true;
    ++a, ++b;
  }
  if (a == to_one.rend() || b == to_other.rend() || (*a)->base != (*b)->base) return false;
  return takes_other_range(program_, (*a)->node, (*b)->node);
}

// A variable of a loop has a doubt for everything that it is in some iteration. What two of them lead to is not the
// same in one iteration, so that a chain has one doubt of each loop.
std::vector<Memory::Suspect> Memory::perhaps_the_same(ValueId value) const {
  std::vector<Suspect> found{{owner(value), value, {}, {}}};
  const auto add = [&](ValueId through, const Doubt& doubt, std::vector<ValueId> loops) {
    if (doubt.loop != none_id) {
      if (std::ranges::find(loops, doubt.loop) != loops.end()) return;
      loops.push_back(doubt.loop);
    }
    const auto known = [&](const Suspect& each) {
      return each.through == through && std::ranges::all_of(each.loops, [&](ValueId loop) {
               return std::ranges::find(loops, loop) != loops.end();
             });
    };
    if (std::ranges::none_of(found, known)) found.push_back({owner(through), through, doubt.why, loops});
  };
  for (std::size_t i = 0; i < found.size() && !state_.doubts.empty(); ++i) {
    const Suspect from = found[i];
    for (const Doubt& doubt : state_.doubts) {
      if (owner(doubt.result) == from.memory) add(doubt.argument, doubt, from.loops);
      if (owner(doubt.argument) == from.memory && !disjoint(doubt.argument, from.through)) {
        add(doubt.result, doubt, from.loops);
      }
    }
  }
  const ValueId own = owner(value);
  std::erase_if(found, [&](const Suspect& each) { return each.memory == own; });
  return found;
}

bool Memory::may_meet(ValueId one, ValueId other) const {
  if (owner(one) == owner(other)) return !disjoint(one, other);
  return std::ranges::any_of(perhaps_the_same(one), [&](const Suspect& each) {
    return each.memory == owner(other) && !disjoint(each.through, other);
  });
}

// Parts of its memory that do not meet the value hold after the next write what they hold now.
void Memory::keep_other_parts(ValueId value) {
  const ValueId memory = owner(value);
  const int writes = writes_to(memory);
  for (auto& [id, version] : state_.versions) {
    if (version.writes == writes && owner(id) == memory && disjoint(id, value)) ++version.writes;
  }
}

// From here on it is unknown what the memory of a value holds, but for the parts that do not meet it.
void Memory::forget(ValueId value) {
  keep_other_parts(value);
  ++state_.writes[owner(value)];
  state_.versions.erase(owner(value));
}

void Memory::forget_suspects(ValueId written) {
  for (const Suspect& other : perhaps_the_same(written)) {
    forget(other.through);
    state_.lost.emplace(other.memory, other.why);
  }
}

// Returns the number of writes to the memory of `written` so far. What may be the same memory holds something unknown.
int Memory::count_write(ValueId written) {
  forget_suspects(written);
  return ++state_.writes[owner(written)];
}

void Memory::lose(ValueId value, const Diagnostic& why) {
  forget_suspects(value);
  forget(value);
  state_.lost.insert_or_assign(owner(value), why);
}

ValueId Memory::fresh_like(ValueId like) {
  Value value;
  value.name = program_.values[like].name + "." + std::to_string(program_.values.size());
  value.type = program_.values[like].type;
  program_.values.push_back(std::move(value));
  return static_cast<ValueId>(program_.values.size() - 1);
}

}  // namespace whence::lower
