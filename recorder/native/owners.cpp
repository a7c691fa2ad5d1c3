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
  Speakers speakers;
  std::vector<std::optional<const Module*>> said_by;  // the module of each speaker, as far as it was looked for
  // For calls: the user's module around the layer; null if it has several parents. For operations of a layer from which
  // the user's class derives: the user's module.
  const Module* around = nullptr;
  const Module* parameter = nullptr;  // for operations: the user's module whose own parameter is read
  bool nameless = false;              // speakers without a class were left out
  bool unknown = false;               // the innermost speaker was one of them
  bool is_call() const { return item.note->called != nullptr; }
};

// Another event of the same call of a speaker's code; `level` is the speaker's position in that event's stack.
struct Neighbour {
  const Event* event = nullptr;
  std::size_t level = 0;
};

// The distance within which events of one call are looked for.
constexpr std::ptrdiff_t horizon = 512;

class OwnerFinder {
 public:
  OwnerFinder(const Module* scope, const Session& session, SpeakerFinder& finder)
      : scope_(scope), session_(session), mirror_(session.mirror()), finder_(finder) {}

  std::vector<Item> run(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      if (const Note* note = session_.note(node)) events_.push_back(event(node, note));
    }
    leave_out_nameless();
    for (const Event& event : events_) {
      for (const Speaker& speaker : event.speakers) first_positions_.emplace(code(speaker), speaker.position);
    }
    for (Event& event : events_) {
      event.said_by.resize(event.speakers.size());
      event.item.owner = event.around;
    }
    find_shown();
    for (Event& event : events_) {
      if (event.item.owner == nullptr) decide(event);
    }
    find_beginnings();
    find_supposed_calls();
    std::vector<Item> items;
    for (const Event& event : events_) items.push_back(event.item);
    return items;
  }

 private:
  Event event(jit::Node* node, const Note* note) {
    Event event;
    event.item.node = node;
    event.item.note = note;
    event.speakers = finder_.in(note->stack);
    if (note->called == nullptr) {
      event.parameter = owner_of_parameter(*node);
      if (note->scope != scope_ && mirror_.at(note->scope).kind == ModuleKind::user) event.around = within(note->scope);
    } else if (mirror_.at(note->called).parents == 1) {
      event.around = within(mirror_.user_module(mirror_.at(note->called).parent));
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

  // Leaves out speakers without a name, as in a stripped program: the layers that they call may belong to a module that
  // was inlined into a caller further out, so nothing is concluded from them.
  void leave_out_nameless() {
    for (Event& event : events_) {
      event.unknown = !event.speakers.empty() && event.speakers.front().type.empty();
      const auto left_out = std::erase_if(event.speakers, [](const Speaker& each) { return each.type.empty(); });
      event.nameless = left_out > 0;
    }
  }

  // ---- the module of a speaker
  // ---------------------------------------------------------------------------------------

  const Module* said_by(Event& event, std::size_t level) {
    if (level >= event.speakers.size()) return nullptr;
    if (!event.said_by[level]) event.said_by[level] = find_module(event, level);
    return *event.said_by[level];
  }

  const Module* find_module(Event& event, std::size_t level) {
    const Module* outer = said_by(event, level + 1);
    const Modules candidates = candidates_for(event.speakers[level].type, outer);
    if (candidates.size() <= 1) return candidates.empty() ? nullptr : candidates.front();
    if (event.around != nullptr) return told_by({&event, level}, candidates);
    if (level == 0 && contains(candidates, event.parameter)) return event.parameter;
    const Neighbour before = neighbour(event, level, -1), after = neighbour(event, level, 1);
    const Module *first = told_by(before, candidates), *second = told_by(after, candidates);
    if (first != nullptr && second != nullptr && first != second) {
      const auto begun = second_has_begun(event, level, *before.event, *after.event);
      return !begun ? nullptr : *begun ? second : first;
    }
    if (first != nullptr || second != nullptr) return first != nullptr ? first : second;
    // The one that the calling module holds itself.
    Modules held;
    for (const Module* each : candidates) {
      if (each != mirror_.root() && mirror_.user_module(mirror_.at(each).parent) == outer) held.push_back(each);
    }
    return held.size() == 1 && !contains(candidates, outer) ? held.front() : nullptr;
  }

  Modules candidates_for(const std::string& type, const Module* outer) const {
    Modules inside, below;
    for (const Module* module : finder_.running(type)) {
      if (!mirror_.encloses(scope_, module)) continue;
      inside.push_back(module);
      if (outer != nullptr && mirror_.encloses(outer, module)) below.push_back(module);
    }
    return below.empty() ? inside : below;
  }

  // Returns the nearest event before or after in the same call of the speaker's code, as far as the positions of its
  // callers show, for which the path of a layer or parameter is known.
  Neighbour neighbour(const Event& event, std::size_t level, int step) const {
    const auto at = &event - events_.data();
    const std::size_t outer = event.speakers.size() - level;
    for (auto i = at + step; i >= 0 && i < std::ssize(events_) && std::abs(i - at) <= horizon; i += step) {
      const Event& other = events_[i];
      if ((other.around == nullptr && other.parameter == nullptr) || other.speakers.size() < outer) continue;
      const std::size_t there = other.speakers.size() - outer;
      if (other.speakers[there].same_code(event.speakers[level]) &&
          std::equal(event.speakers.end() - static_cast<std::ptrdiff_t>(outer) + 1, event.speakers.end(),
                     other.speakers.end() - static_cast<std::ptrdiff_t>(outer) + 1)) {
        return {&other, there};
      }
    }
    return {};
  }

  // Returns the candidate in which a neighbour's layer or parameter lies: upwards from there, each speaker is a module
  // of its class. A class nested in itself shows nothing, unless all inlining is known and its one function calls
  // itself.
  const Module* told_by(const Neighbour& neighbour, const Modules& candidates) const {
    if (neighbour.event == nullptr) return nullptr;
    const Event& event = *neighbour.event;
    const Module* above = event.around;
    if (above == nullptr) {
      above = finder_.runs(event.parameter, event.speakers.front().type) ? event.parameter : nullptr;
    }
    for (std::size_t i = 0; i <= neighbour.level && above != nullptr; ++i) {
      const Speaker& speaker = event.speakers[i];
      if (is_recursive(speaker.type)) {
        if (!speaker.certain) return nullptr;
        if (i > 0 && event.speakers[i - 1].type == speaker.type) {
          if (event.speakers[i - 1].function != speaker.function) return nullptr;
          above = mirror_.at(above).parent;
        }
      }
      while (above != nullptr && !finder_.runs(above, speaker.type)) above = mirror_.at(above).parent;
    }
    return contains(candidates, above) ? above : nullptr;
  }

  bool is_recursive(const std::string& type) const {
    const auto [known, fresh] = recursive_.emplace(type, false);
    if (!fresh) return known->second;
    for (const Module* outer : finder_.running(type)) {
      for (const Module* inner : finder_.running(type)) {
        if (outer != inner && mirror_.encloses(outer, inner)) return known->second = true;
      }
    }
    return false;
  }

  // For an event between layers of two modules that the same code called: the call of the second module begins where
  // that code begins. Returns true if it has begun, none if its beginning is not visible.
  std::optional<bool> second_has_begun(const Event& event, std::size_t level, const Event& before,
                                       const Event& after) const {
    const std::size_t outer = event.speakers.size() - level;
    bool known = false, begun = false;
    for (const Event* each = &before + 1; each <= &after; ++each) {
      if (each->speakers.size() < outer) continue;
      const std::size_t there = each->speakers.size() - outer;
      if (!each->speakers[there].same_code(event.speakers[level]) || !at_beginning(*each, there)) continue;
      known = true;
      begun = begun || each <= &event;
    }
    return known ? std::optional(begun) : std::nullopt;
  }

  static std::pair<std::string, std::uintptr_t> code(const Speaker& speaker) {
    return {speaker.type, speaker.function};
  }

  bool at_beginning(const Event& event, std::size_t level) const {
    for (std::size_t i = 0; i <= level; ++i) {
      if (first_positions_.at(code(event.speakers[i])) != event.speakers[i].position) return false;
    }
    return true;
  }

  // ---- code that was inlined unseen
  // ----------------------------------------------------------------------------------

  // Modules whose code has frames of its own, so that it is not inlined into the frames of others.
  void find_shown() {
    for (Event& event : events_) {
      for (std::size_t i = 0; i < event.speakers.size(); ++i) {
        if (const Module* module = said_by(event, i)) shown_.insert(module);
      }
      const Module* caller = said_by(event, 0);
      if (caller == nullptr || event.speakers.front().certain) continue;
      for (const Module* inlined : {event.around, event.parameter}) {
        if (inlined != nullptr && inlined != caller) inlined_.insert(inlined);
      }
    }
  }

  bool all_shown_below(const Module* module) const {
    for (const Module* child : mirror_.at(module).children) {
      if (mirror_.at(child).kind == ModuleKind::user && (shown_.count(child) == 0 || inlined_.count(child) > 0)) {
        return false;
      }
      if (!all_shown_below(child)) return false;
    }
    return true;
  }

  // A module whose code was inlined into the speaker's: the operation stands between two of its layers, in one call.
  const Module* inlined_around(const Event& event) const {
    const Event *before = neighbour(event, 0, -1).event, *after = neighbour(event, 0, 1).event;
    if (before == nullptr || after == nullptr || before->around == nullptr || before->around != after->around ||
        !all_shown_below(before->around)) {
      return nullptr;
    }
    // A layer that occurs again belongs to the next call, and operations between the calls may belong to any module.
    for (const Event* each = before; each >= events_.data(); --each) {
      if (each->around != nullptr && each->around != before->around) break;
      if (each->item.note->called != nullptr && each->item.note->called == after->item.note->called) return nullptr;
    }
    return before->around;
  }

  // ---- decisions
  // -----------------------------------------------------------------------------------------------------

  void decide(Event& event) {
    Item& item = event.item;
    item.owner = said_by(event, 0);
    if (item.owner == nullptr) {
      item.owner = smallest_around(event);
      item.basis = ScopeBasis::enclosing;
    } else if (!event.speakers.front().certain && event.parameter != item.owner && !all_shown_below(item.owner)) {
      const Module* inlined = inlined_around(event);
      if (inlined == nullptr || inlined == item.owner || !mirror_.encloses(item.owner, inlined)) {
        item.basis = ScopeBasis::enclosing;
      } else {
        item.owner = inlined;
      }
    }
    if (event.unknown || (event.nameless && item.basis == ScopeBasis::enclosing)) {
      item.owner = scope_;
      item.basis = ScopeBasis::enclosing;
    }
  }

  // Returns the module of the nearest calling speaker, or if none is known, the module around all candidates.
  const Module* smallest_around(Event& event) {
    for (std::size_t i = 1; i < event.speakers.size(); ++i) {
      if (const Module* module = said_by(event, i)) return module;
    }
    const Module* common = nullptr;
    for (const Module* module : event.speakers.empty() ? Modules() : candidates_for(event.speakers[0].type, nullptr)) {
      common = common == nullptr ? module : mirror_.common_ancestor(common, module);
    }
    return common == nullptr ? scope_ : within(mirror_.user_module(common));
  }

  // ---- calls
  // ---------------------------------------------------------------------------------------------------------

  // Finds where each call begins of a module that is called several times in a row. Calls by different code differ in
  // their stacks. Calls by the same code, as in a loop, repeat the first event of the call; but so does a loop inside
  // one call. If every repetition does the same to the end, the loop is around calls, otherwise it is taken to be
  // inside a call.
  void find_beginnings() {
    while (true) {
      bool changed = false;
      for (const Loop& loop : mark_beginnings()) {
        if (!repeats_itself(loop)) changed |= inside_.emplace(loop.module, loop.starts.front()).second;
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

  std::vector<Loop> mark_beginnings() {
    std::vector<Loop> loops;
    std::vector<Call> open;
    for (Event& event : events_) {
      event.item.begins = nullptr;
      const std::vector<const Module*> chain = chain_of(event);
      std::optional<std::size_t> loop;
      std::size_t common = 0;
      while (common < open.size() && common < chain.size() && open[common].module == chain[common]) {
        Call& call = open[common];
        const std::optional<bool> by_caller = begins_other_call(event, *call.first, *call.last, call.module);
        if (by_caller && (*by_caller || !inside_.contains({call.module, call.first}))) {
          event.item.begins = call.module;
          if (!*by_caller) loop = next_of_loop(call, event, loops);
          break;
        }
        call.last = &event;
        if (call.loop) loops[*call.loop].last = &event;
        ++common;
      }
      open.resize(common);
      for (; common < chain.size(); ++common) {
        open.push_back({chain[common], &event, &event, chain[common] == event.item.begins ? loop : std::nullopt});
      }
    }
    return loops;
  }

  // Marks calls of a module that the stack does not distinguish as supposed, with everything in them: if one of its
  // layers is called again by the same code, the loop may be inside one call or around calls; and an operation between
  // two of its layers, whose module only the stack shows, may follow a call or be in it.
  void find_supposed_calls() {
    std::set<std::pair<const Module*, std::vector<std::uintptr_t>>> called_from;
    std::map<const Module*, const Event*> called_before, last_within;
    std::set<const Module*> supposed, left;  // left: by operations alone
    for (const Event& event : events_) {
      const std::vector<const Module*> chain = chain_of(event);
      if (!event.is_call()) {
        for (const auto& [module, last] : last_within) {
          if (std::ranges::find(chain, module) == chain.end()) left.insert(module);
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
        const bool reopened = left.contains(module) && !is_called_elsewhere(event, *last_within.at(module), module);
        if (again || reopened) supposed.insert(module);
      }
      // A layer of another module ends all calls that it is not in.
      std::erase_if(last_within, [&](const auto& each) { return std::ranges::find(chain, each.first) == chain.end(); });
      left.clear();
      for (const Module* module : chain) last_within[module] = &event;
    }
    for (Event& event : events_) {
      event.item.supposed_call =
          std::ranges::any_of(chain_of(event), [&](const Module* module) { return supposed.contains(module); });
    }
  }

  // Returns true if the stacks show that `a` and `b` are in calls of `module` by different code.
  bool is_called_elsewhere(const Event& a, const Event& b, const Module* module) const {
    const auto level = outermost_level(a, module), other = outermost_level(b, module);
    return level && other && above(a, *level) != above(b, *other);
  }

  static Speakers above(const Event& event, std::size_t level) {
    return Speakers(event.speakers.begin() + static_cast<std::ptrdiff_t>(level) + 1, event.speakers.end());
  }

  // The user's modules from below the scope down to the owner.
  std::vector<const Module*> chain_of(const Event& event) const {
    std::vector<const Module*> chain;
    for (const Module* each = event.item.owner; each != scope_ && each != nullptr; each = mirror_.at(each).parent) {
      if (mirror_.at(each).kind == ModuleKind::user) chain.insert(chain.begin(), each);
    }
    return chain;
  }

  // `event` begins a call after `before`.
  static std::size_t next_of_loop(const Call& before, const Event& event, std::vector<Loop>& loops) {
    if (!before.loop) loops.push_back({before.module, {before.first}, before.last});
    const std::size_t loop = before.loop.value_or(loops.size() - 1);
    loops[loop].starts.push_back(&event);
    loops[loop].last = &event;
    return loop;
  }

  static bool repeats_itself(const Loop& loop) {
    const auto same = [](const Event& a, const Event& b) {
      return a.item.note->called == b.item.note->called && a.speakers == b.speakers;
    };
    for (std::size_t i = 1; i < loop.starts.size(); ++i) {
      const Event* const end = i + 1 < loop.starts.size() ? loop.starts[i + 1] : loop.last + 1;
      if (!std::equal(loop.starts[0], loop.starts[1], loop.starts[i], end, same)) return false;
    }
    return true;
  }

  // `first` and `last`: events of the call so far. Returns none if the call goes on, true if other code called the
  // module, false if the first event occurs again. One function of LibTorch may perform several operations in a row.
  std::optional<bool> begins_other_call(const Event& event, const Event& first, const Event& last,
                                        const Module* module) {
    const auto repeats = [](bool again) { return again ? std::optional(false) : std::nullopt; };
    const auto level = outermost_level(event, module), first_level = outermost_level(first, module);
    if (!level || !first_level) {  // inlined
      return repeats(event.is_call() && event.around == module && event.item.note->called == first.item.note->called &&
                     event.speakers == first.speakers);
    }
    if (above(event, *level) != above(first, *first_level)) return true;
    return repeats(event.speakers == first.speakers && event.item.note->called == first.item.note->called &&
                   (event.is_call() || last.speakers != event.speakers));
  }

  std::optional<std::size_t> outermost_level(const Event& event, const Module* module) const {
    for (std::size_t i = event.said_by.size(); i > 0; --i) {
      if (event.said_by[i - 1] != module) continue;
      std::size_t level = i - 1;  // a caller of forward, such as AnyModule, may have the class's name, too
      const std::string& type = event.speakers[level].type;
      while (level + 1 < event.speakers.size() && event.speakers[level + 1].type == type && !is_recursive(type))
        ++level;
      return level;
    }
    return std::nullopt;
  }

  const Module* scope_;
  const Session& session_;
  const ModuleMirror& mirror_;
  SpeakerFinder& finder_;
  std::vector<Event> events_;
  std::map<std::pair<std::string, std::uintptr_t>, std::uintptr_t> first_positions_;  // by code
  std::set<const Module*> shown_, inlined_;
  std::set<std::pair<const Module*, const Event*>> inside_;  // loops within a call, by the first event of the call
  mutable std::map<std::string, bool> recursive_;
};

}  // namespace

std::vector<Item> find_owners(jit::Block& block, const Module* scope, const Session& session, SpeakerFinder& speakers) {
  return OwnerFinder(scope, session, speakers).run(block);
}

}  // namespace whence::native
