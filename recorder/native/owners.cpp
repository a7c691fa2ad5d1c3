// Infers owners from the frames of the native stack, neighbouring layers and parameters, and finds where calls start.
#include "recorder/native/owners.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace whence::native {

namespace jit = torch::jit;
using Module = torch::nn::Module;

namespace {

using Modules = std::vector<const Module*>;

bool contains(const Modules& modules, const Module* module) {
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

struct Event {
  Item item;
  ModelFrames frames;
  std::vector<std::optional<const Module*>> frame_modules;  // by frame: its module, if it was looked up
  // For calls: the user's module that contains the layer; null if the layer has several parents. For operations of a
  // layer that is a base class of a user's class: the user's module.
  const Module* enclosing = nullptr;
  const Module* parameter_owner = nullptr;  // for operations: the user's module that owns a parameter it reads
  bool has_unnamed = false;                 // frames without a class were dropped
  bool innermost_unnamed = false;           // the innermost frame was one of them
  bool is_call() const { return item.note->called != nullptr; }
};

// Another event in the same call of a frame's function. `level` is the frame's position in that event's stack.
struct Neighbour {
  const Event* event = nullptr;
  std::size_t level = 0;
};

// The number of events to search in each direction.
constexpr std::ptrdiff_t max_neighbour_distance = 512;

class OwnerFinder {
 public:
  OwnerFinder(const Module* scope, const Session& session, ModelFrameFinder& finder)
      : scope_(scope), session_(session), mirror_(session.mirror()), finder_(finder) {}

  std::vector<Item> run(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      if (const Note* note = session_.note(node)) events_.push_back(event(node, note));
    }
    drop_unnamed_frames();
    for (const Event& event : events_) {
      for (const ModelFrame& frame : event.frames) first_positions_.emplace(code(frame), frame.position);
    }
    for (Event& event : events_) {
      event.frame_modules.resize(event.frames.size());
      event.item.owner = event.enclosing;
    }
    find_modules_with_frames();
    for (Event& event : events_) {
      if (event.item.owner == nullptr) decide(event);
    }
    find_call_starts();
    find_uncertain_calls();
    std::vector<Item> items;
    for (const Event& event : events_) items.push_back(event.item);
    return items;
  }

 private:
  Event event(jit::Node* node, const Note* note) {
    Event event;
    event.item.node = node;
    event.item.note = note;
    event.frames = finder_.frames_of(note->stack);
    if (note->called == nullptr) {
      event.parameter_owner = owner_of_parameter(*node);
      if (note->scope != scope_ && mirror_.at(note->scope).kind == ModuleKind::user)
        event.enclosing = within(note->scope);
    } else if (mirror_.at(note->called).parents == 1) {
      event.enclosing = within(mirror_.user_module(mirror_.at(note->called).parent));
    }
    return event;
  }

  const Module* owner_of_parameter(const jit::Node& node) const {
    for (const jit::Value* input : node.inputs()) {
      if (input->node()->kind() != jit::prim::TracedAttr) continue;
      const std::string& name = input->node()->s(jit::attr::scope);
      for (const Module* module : mirror_.modules()) {
        const std::string prefix = mirror_.at(module).scope + ".";
        if (mirror_.at(module).kind == ModuleKind::user && name.starts_with(prefix) &&
            name.find('.', prefix.size()) == std::string::npos && mirror_.encloses(scope_, module)) {
          return module;
        }
      }
    }
    return nullptr;
  }

  const Module* within(const Module* module) const { return mirror_.encloses(scope_, module) ? module : scope_; }

  // Drops frames without a class, as in a stripped program. Nothing can be inferred from them: the layers that they
  // call may belong to a module that was inlined into an outer caller.
  void drop_unnamed_frames() {
    for (Event& event : events_) {
      event.innermost_unnamed = !event.frames.empty() && event.frames.front().type.empty();
      const auto dropped = std::erase_if(event.frames, [](const ModelFrame& each) { return each.type.empty(); });
      event.has_unnamed = dropped > 0;
    }
  }

  // ---- the module of a frame ----------------------------------------------------------------------------------------

  const Module* module_of(Event& event, std::size_t level) {
    if (level >= event.frames.size()) return nullptr;
    if (!event.frame_modules[level]) event.frame_modules[level] = find_module(event, level);
    return *event.frame_modules[level];
  }

  const Module* find_module(Event& event, std::size_t level) {
    const Module* outer = module_of(event, level + 1);
    const Modules candidates = candidates_for(event.frames[level].type, outer);
    if (candidates.size() <= 1) return candidates.empty() ? nullptr : candidates.front();
    if (event.enclosing != nullptr) return candidate_around({&event, level}, candidates);
    if (level == 0 && contains(candidates, event.parameter_owner)) return event.parameter_owner;
    const Neighbour before = neighbour(event, level, -1), after = neighbour(event, level, 1);
    const Module *first = candidate_around(before, candidates), *second = candidate_around(after, candidates);
    if (first != nullptr && second != nullptr && first != second) {
      const auto begun = second_has_begun(event, level, *before.event, *after.event);
      return !begun ? nullptr : *begun ? second : first;
    }
    if (first != nullptr || second != nullptr) return first != nullptr ? first : second;
    // Prefers the only candidate that is a child of the calling module.
    Modules held;
    for (const Module* each : candidates) {
      if (each != mirror_.root() && mirror_.user_module(mirror_.at(each).parent) == outer) held.push_back(each);
    }
    return held.size() == 1 && !contains(candidates, outer) ? held.front() : nullptr;
  }

  Modules candidates_for(const std::string& type, const Module* outer) const {
    Modules inside, below;
    for (const Module* module : finder_.modules_running(type)) {
      if (!mirror_.encloses(scope_, module)) continue;
      inside.push_back(module);
      if (outer != nullptr && mirror_.encloses(outer, module)) below.push_back(module);
    }
    return below.empty() ? inside : below;
  }

  // Returns the nearest event in direction `step` that has a known layer or parameter and is in the same call of the
  // frame's function, judged by the positions of its callers.
  Neighbour neighbour(const Event& event, std::size_t level, int step) const {
    const auto at = &event - events_.data();
    const std::size_t outer = event.frames.size() - level;
    for (auto i = at + step; i >= 0 && i < std::ssize(events_) && std::abs(i - at) <= max_neighbour_distance;
         i += step) {
      const Event& other = events_[i];
      if ((other.enclosing == nullptr && other.parameter_owner == nullptr) || other.frames.size() < outer) continue;
      const std::size_t there = other.frames.size() - outer;
      if (other.frames[there].same_code(event.frames[level]) &&
          std::equal(event.frames.end() - static_cast<std::ptrdiff_t>(outer) + 1, event.frames.end(),
                     other.frames.end() - static_cast<std::ptrdiff_t>(outer) + 1)) {
        return {&other, there};
      }
    }
    return {};
  }

  // Returns the candidate that contains the neighbour's layer or parameter. From there, each outer frame is matched
  // with the nearest ancestor of its class. A class nested in itself is ambiguous, unless all inlining is known and its
  // single function calls itself.
  const Module* candidate_around(const Neighbour& neighbour, const Modules& candidates) const {
    if (neighbour.event == nullptr) return nullptr;
    const Event& event = *neighbour.event;
    const Module* above = event.enclosing;
    if (above == nullptr) {
      above = finder_.may_run(event.parameter_owner, event.frames.front().type) ? event.parameter_owner : nullptr;
    }
    for (std::size_t i = 0; i <= neighbour.level && above != nullptr; ++i) {
      const ModelFrame& frame = event.frames[i];
      if (is_recursive(frame.type)) {
        if (!frame.certain) return nullptr;
        if (i > 0 && event.frames[i - 1].type == frame.type) {
          if (event.frames[i - 1].function != frame.function) return nullptr;
          above = mirror_.at(above).parent;
        }
      }
      while (above != nullptr && !finder_.may_run(above, frame.type)) above = mirror_.at(above).parent;
    }
    return contains(candidates, above) ? above : nullptr;
  }

  bool is_recursive(const std::string& type) const {
    const auto [entry, fresh] = recursive_.emplace(type, false);
    if (!fresh) return entry->second;
    for (const Module* outer : finder_.modules_running(type)) {
      for (const Module* inner : finder_.modules_running(type)) {
        if (outer != inner && mirror_.encloses(outer, inner)) return entry->second = true;
      }
    }
    return false;
  }

  // For an event between layers of two modules that run the same code: the second module's call starts where this code
  // starts. Returns true if the event is after the start, none if no start is visible.
  std::optional<bool> second_has_begun(const Event& event, std::size_t level, const Event& before,
                                       const Event& after) const {
    const std::size_t outer = event.frames.size() - level;
    bool start_visible = false, begun = false;
    for (const Event* each = &before + 1; each <= &after; ++each) {
      if (each->frames.size() < outer) continue;
      const std::size_t there = each->frames.size() - outer;
      if (!each->frames[there].same_code(event.frames[level]) || !at_first_position(*each, there)) continue;
      start_visible = true;
      begun = begun || each <= &event;
    }
    return start_visible ? std::optional(begun) : std::nullopt;
  }

  static std::pair<std::string, std::uintptr_t> code(const ModelFrame& frame) { return {frame.type, frame.function}; }

  bool at_first_position(const Event& event, std::size_t level) const {
    for (std::size_t i = 0; i <= level; ++i) {
      if (first_positions_.at(code(event.frames[i])) != event.frames[i].position) return false;
    }
    return true;
  }

  // ---- code that was inlined without a frame ------------------------------------------------------------------------

  // Finds the modules whose code has frames of its own and was not inlined into other frames.
  void find_modules_with_frames() {
    for (Event& event : events_) {
      for (std::size_t i = 0; i < event.frames.size(); ++i) {
        if (const Module* module = module_of(event, i)) with_frames_.insert(module);
      }
      const Module* caller = module_of(event, 0);
      if (caller == nullptr || event.frames.front().certain) continue;
      for (const Module* inlined : {event.enclosing, event.parameter_owner}) {
        if (inlined != nullptr && inlined != caller) inlined_.insert(inlined);
      }
    }
  }

  bool all_below_have_frames(const Module* module) const {
    for (const Module* child : mirror_.at(module).children) {
      if (mirror_.at(child).kind == ModuleKind::user && (with_frames_.count(child) == 0 || inlined_.count(child) > 0)) {
        return false;
      }
      if (!all_below_have_frames(child)) return false;
    }
    return true;
  }

  // Returns a module whose code was inlined into the frame's function: the operation is between two of its layers, in
  // one call.
  const Module* inlined_module(const Event& event) const {
    const Event *before = neighbour(event, 0, -1).event, *after = neighbour(event, 0, 1).event;
    if (before == nullptr || after == nullptr || before->enclosing == nullptr ||
        before->enclosing != after->enclosing || !all_below_have_frames(before->enclosing)) {
      return nullptr;
    }
    // A repeated layer belongs to the next call, and an operation between two calls may belong to any module.
    for (const Event* each = before; each >= events_.data(); --each) {
      if (each->enclosing != nullptr && each->enclosing != before->enclosing) break;
      if (each->item.note->called != nullptr && each->item.note->called == after->item.note->called) return nullptr;
    }
    return before->enclosing;
  }

  // ---- decisions ----------------------------------------------------------------------------------------------------

  void decide(Event& event) {
    Item& item = event.item;
    item.owner = module_of(event, 0);
    if (item.owner == nullptr) {
      item.owner = smallest_enclosing(event);
      item.basis = ScopeBasis::enclosing;
    } else if (!event.frames.front().certain && event.parameter_owner != item.owner &&
               !all_below_have_frames(item.owner)) {
      const Module* inlined = inlined_module(event);
      if (inlined == nullptr || inlined == item.owner || !mirror_.encloses(item.owner, inlined)) {
        item.basis = ScopeBasis::enclosing;
      } else {
        item.owner = inlined;
      }
    }
    if (event.innermost_unnamed || (event.has_unnamed && item.basis == ScopeBasis::enclosing)) {
      item.owner = scope_;
      item.basis = ScopeBasis::enclosing;
    }
  }

  // Returns the module of the nearest caller; if none is known, the common ancestor of all candidates.
  const Module* smallest_enclosing(Event& event) {
    for (std::size_t i = 1; i < event.frames.size(); ++i) {
      if (const Module* module = module_of(event, i)) return module;
    }
    const Module* common = nullptr;
    for (const Module* module : event.frames.empty() ? Modules() : candidates_for(event.frames[0].type, nullptr)) {
      common = common == nullptr ? module : mirror_.common_ancestor(common, module);
    }
    return common == nullptr ? scope_ : within(mirror_.user_module(common));
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  // Finds the starts of consecutive calls of one module. Calls by different code differ in their stacks. Calls by the
  // same code, as in a loop, repeat the first event of the call; but so does a loop inside one call. If all repetitions
  // are equal to the end, the loop is around the calls; otherwise it is assumed to be inside one call.
  void find_call_starts() {
    while (true) {
      bool changed = false;
      for (const Loop& loop : mark_call_starts()) {
        if (!repeats_itself(loop)) changed |= inside_call_.emplace(loop.module, loop.starts.front()).second;
      }
      if (!changed) return;
    }
  }

  // Consecutive calls of one module by the same code.
  struct Loop {
    const Module* module;
    std::vector<const Event*> starts;
    const Event* last;
  };

  struct Call {
    const Module* module;
    const Event *first, *last;
    std::optional<std::size_t> loop = {};
  };

  std::vector<Loop> mark_call_starts() {
    std::vector<Loop> loops;
    std::vector<Call> open;
    for (Event& event : events_) {
      event.item.starts_call_of = nullptr;
      const std::vector<const Module*> chain = chain_of(event);
      std::optional<std::size_t> loop;
      std::size_t common = 0;
      while (common < open.size() && common < chain.size() && open[common].module == chain[common]) {
        Call& call = open[common];
        const std::optional<bool> by_caller = starts_other_call(event, *call.first, *call.last, call.module);
        if (by_caller && (*by_caller || !inside_call_.contains({call.module, call.first}))) {
          event.item.starts_call_of = call.module;
          if (!*by_caller) loop = next_of_loop(call, event, loops);
          break;
        }
        call.last = &event;
        if (call.loop) loops[*call.loop].last = &event;
        ++common;
      }
      open.resize(common);
      for (; common < chain.size(); ++common) {
        open.push_back(
            {chain[common], &event, &event, chain[common] == event.item.starts_call_of ? loop : std::nullopt});
      }
    }
    return loops;
  }

  // Marks all items in calls that the stack does not distinguish. If the same code calls one of the module's layers
  // again, the loop may be inside one call or around several. An operation between two of its layers, whose module only
  // the stack shows, may be in the call or after it.
  void find_uncertain_calls() {
    std::set<std::pair<const Module*, std::vector<std::uintptr_t>>> called_from;
    std::map<const Module*, const Event*> called_before, last_within;
    std::set<const Module*> uncertain,
        interrupted;  // `interrupted`: by operations only, not by layers of another module
    for (const Event& event : events_) {
      const std::vector<const Module*> chain = chain_of(event);
      if (!event.is_call()) {
        for (const auto& [module, last] : last_within) {
          if (std::ranges::find(chain, module) == chain.end()) interrupted.insert(module);
        }
        continue;
      }
      std::vector<std::uintptr_t> sites;
      for (const NativeFrame& frame : event.item.note->stack) sites.push_back(frame.site);
      const bool by_same_code = !called_from.emplace(event.item.note->called, std::move(sites)).second;
      const Event* const before = std::exchange(called_before[event.item.note->called], &event);
      for (const Module* module : chain) {
        const bool again =
            before != nullptr && (by_same_code || !outermost_level(event, module) || !outermost_level(*before, module));
        const bool reopened =
            interrupted.contains(module) && !is_called_elsewhere(event, *last_within.at(module), module);
        if (again || reopened) uncertain.insert(module);
      }
      // A layer ends all calls of modules that do not contain it.
      std::erase_if(last_within, [&](const auto& each) { return std::ranges::find(chain, each.first) == chain.end(); });
      interrupted.clear();
      for (const Module* module : chain) last_within[module] = &event;
    }
    for (Event& event : events_) {
      event.item.call_uncertain =
          std::ranges::any_of(chain_of(event), [&](const Module* module) { return uncertain.contains(module); });
    }
  }

  // Returns true if the stacks show that different code called `module` for `a` and for `b`.
  bool is_called_elsewhere(const Event& a, const Event& b, const Module* module) const {
    const auto level = outermost_level(a, module), other = outermost_level(b, module);
    return level && other && callers_of(a, *level) != callers_of(b, *other);
  }

  static ModelFrames callers_of(const Event& event, std::size_t level) {
    return ModelFrames(event.frames.begin() + static_cast<std::ptrdiff_t>(level) + 1, event.frames.end());
  }

  // Returns the user's modules below the scope, down to the owner.
  std::vector<const Module*> chain_of(const Event& event) const {
    std::vector<const Module*> chain;
    for (const Module* each = event.item.owner; each != scope_ && each != nullptr; each = mirror_.at(each).parent) {
      if (mirror_.at(each).kind == ModuleKind::user) chain.insert(chain.begin(), each);
    }
    return chain;
  }

  // Adds the call that starts with `event` to the loop of `before`, and returns the loop's index.
  static std::size_t next_of_loop(const Call& before, const Event& event, std::vector<Loop>& loops) {
    if (!before.loop) loops.push_back({before.module, {before.first}, before.last});
    const std::size_t loop = before.loop.value_or(loops.size() - 1);
    loops[loop].starts.push_back(&event);
    loops[loop].last = &event;
    return loop;
  }

  static bool repeats_itself(const Loop& loop) {
    const auto same = [](const Event& a, const Event& b) {
      return a.item.note->called == b.item.note->called && a.frames == b.frames;
    };
    for (std::size_t i = 1; i < loop.starts.size(); ++i) {
      const Event* const end = i + 1 < loop.starts.size() ? loop.starts[i + 1] : loop.last + 1;
      if (!std::equal(loop.starts[0], loop.starts[1], loop.starts[i], end, same)) return false;
    }
    return true;
  }

  // Returns none if the call continues, true if other code called the module, false if the first event occurs again.
  // `first` and `last` are events of the call so far. One function of LibTorch may perform several operations in a row.
  std::optional<bool> starts_other_call(const Event& event, const Event& first, const Event& last,
                                        const Module* module) {
    const auto repeats = [](bool again) { return again ? std::optional(false) : std::nullopt; };
    const auto level = outermost_level(event, module), first_level = outermost_level(first, module);
    if (!level || !first_level) {  // inlined
      return repeats(event.is_call() && event.enclosing == module &&
                     event.item.note->called == first.item.note->called && event.frames == first.frames);
    }
    if (callers_of(event, *level) != callers_of(first, *first_level)) return true;
    return repeats(event.frames == first.frames && event.item.note->called == first.item.note->called &&
                   (event.is_call() || last.frames != event.frames));
  }

  std::optional<std::size_t> outermost_level(const Event& event, const Module* module) const {
    for (std::size_t i = event.frame_modules.size(); i > 0; --i) {
      if (event.frame_modules[i - 1] != module) continue;
      std::size_t level = i - 1;  // a caller of forward, such as AnyModule, may also carry the class's name
      const std::string& type = event.frames[level].type;
      while (level + 1 < event.frames.size() && event.frames[level + 1].type == type && !is_recursive(type)) ++level;
      return level;
    }
    return std::nullopt;
  }

  const Module* scope_;
  const Session& session_;
  const ModuleMirror& mirror_;
  ModelFrameFinder& finder_;
  std::vector<Event> events_;
  std::map<std::pair<std::string, std::uintptr_t>, std::uintptr_t> first_positions_;  // by code
  std::set<const Module*> with_frames_, inlined_;
  std::set<std::pair<const Module*, const Event*>>
      inside_call_;  // loops inside one call: module and first event of the call
  mutable std::map<std::string, bool> recursive_;
};

}  // namespace

std::vector<Item> find_owners(jit::Block& block, const Module* scope, const Session& session,
                              ModelFrameFinder& finder) {
  return OwnerFinder(scope, session, finder).run(block);
}

}  // namespace whence::native
