#include "recorder/native/owners.h"

#include <map>
#include <optional>

namespace whence::native {

namespace jit = torch::jit;
using Module = torch::nn::Module;

namespace {

// The innermost code of the model's that was running, and the code that called it.
struct Speaker {
  std::string type;             // class, "" when its name is not known
  std::uintptr_t function = 0;  // in a stripped program, what stands for it
  std::uintptr_t site = 0, base = 0;
  bool certain = false;  // from debug information, so nothing was inlined unseen

  bool same_code(const Speaker& other) const {
    return type == other.type && (!type.empty() || function == other.function);
  }
};

struct Event {
  Item item;
  std::vector<Speaker> speakers;   // innermost first
  const Module* around = nullptr;  // of calls: the user's module around the layer; none if it has several parents
  const Speaker* speaker() const { return speakers.empty() ? nullptr : &speakers.front(); }
  bool is_call() const { return item.note->called != nullptr; }
};

struct Answer {
  const Module* module;
  ScopeBasis basis = ScopeBasis::inferred;
};

class OwnerFinder {
 public:
  OwnerFinder(const Module* scope, const Session& session, Symbols& symbols)
      : scope_(scope), session_(session), mirror_(session.mirror()), symbols_(symbols) {
    for (const Module* module : mirror_.modules()) {
      if (mirror_.at(module).kind != ModuleKind::user) continue;
      instances_[mirror_.at(module).type].push_back(module);
    }
  }

  std::vector<Item> run(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      if (const Note* note = session_.note(node)) events_.push_back(event(node, note));
    }
    for (const Event& event : events_) {
      if (event.speaker() != nullptr) first_sites_.emplace(key(*event.speaker()), event.speaker()->site);
    }
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].is_call()) events_[i].item.owner = events_[i].around;
    }
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (!events_[i].is_call()) decide(i);
    }
    // A layer with several parents belongs where its neighbours do.
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].item.owner == nullptr) decide(i);
    }
    find_beginnings();
    std::vector<Item> items;
    for (const Event& event : events_) items.push_back(event.item);
    return items;
  }

 private:
  static std::string key(const Speaker& speaker) {
    return speaker.type.empty() ? "@" + std::to_string(speaker.function) : speaker.type;
  }

  Event event(jit::Node* node, const Note* note) {
    Event event;
    event.item.node = node;
    event.item.note = note;
    for (const NativeFrame& frame : note->stack) {
      if (auto found = speaker(frame)) event.speakers.push_back(std::move(*found));
    }
    if (note->called != nullptr && mirror_.at(note->called).parents == 1) {
      event.around = mirror_.user_module(mirror_.at(note->called).parent);
      if (!mirror_.encloses(scope_, event.around)) event.around = scope_;
    }
    return event;
  }

  // The model's class whose code is at a frame; none for frames of headers and of helper functions.
  std::optional<Speaker> speaker(const NativeFrame& frame) {
    const std::vector<Frame>& functions = symbols_.at(frame.site);
    if (functions.empty()) return Speaker{"", frame.function, frame.site, frame.base, false};
    for (const Frame& function : functions) {
      for (const auto& [type, modules] : instances_) {
        if (function.function.starts_with(type + "::"))
          return Speaker{type, frame.function, frame.site, frame.base, !function.file.empty()};
      }
    }
    return std::nullopt;
  }

  // ---- what one event says of another's owner ----------------------------------------------------------------------

  // The module of `speaker`, given that `neighbour` belongs to `around`.
  const Module* by_neighbour(const Speaker& speaker, const Event& neighbour, const Module* around) const {
    for (const Speaker& theirs : neighbour.speakers) {
      if (!speaker.same_code(theirs)) continue;
      const bool innermost = &theirs == neighbour.speaker();
      if (innermost && (speaker.type.empty() || mirror_.at(around).type == speaker.type || !speaker.certain)) {
        return around;  // also when the class differs: its forward was inlined into the speaker's
      }
      for (const Module* above = around; above != nullptr; above = mirror_.at(above).parent) {
        const MirroredModule& module = mirror_.at(above);
        if (module.kind != ModuleKind::user) continue;
        if (speaker.type.empty() ? above != around : module.type == speaker.type) return within(above);
      }
    }
    return nullptr;
  }

  const Module* within(const Module* module) const { return mirror_.encloses(scope_, module) ? module : scope_; }

  // The user's own module whose parameter is read.
  const Module* by_parameter(const jit::Node& node) const {
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

  const Event* neighbour(std::size_t at, int step) const {
    for (auto i = static_cast<std::ptrdiff_t>(at) + step; i >= 0 && i < static_cast<std::ptrdiff_t>(events_.size());
         i += step) {
      if (events_[i].around != nullptr) return &events_[i];
    }
    return nullptr;
  }

  static void take(Event& event, const Answer& answer) {
    event.item.owner = answer.module;
    event.item.basis = answer.basis;
  }

  void decide(std::size_t at) {
    Event& event = events_[at];
    const Event *before = neighbour(at, -1), *after = neighbour(at, 1);
    if (const Module* module = by_parameter(*event.item.node)) {
      event.item.owner = module;
      if (only_one(event) == module) event.item.basis = ScopeBasis::observed;
      return;
    }
    const Speaker* speaker = event.speaker();
    if (speaker == nullptr) {
      take(event, between(before, after));
      return;
    }
    const Module* first = before == nullptr ? nullptr : by_neighbour(*speaker, *before, before->around);
    const Module* second = after == nullptr ? nullptr : by_neighbour(*speaker, *after, after->around);
    if (const Module* single = only_one(event)) {
      event.item.owner = single;
      event.item.basis = ScopeBasis::observed;
    } else if (first != nullptr && second != nullptr && first != second) {
      take(event, at_boundary(at, *before, first, *after, second));
    } else if (first != nullptr || second != nullptr) {
      event.item.owner = first != nullptr ? first : second;
      const bool proved = first == second && speaker->certain && mirror_.at(first).type == speaker->type;
      if (proved) event.item.basis = ScopeBasis::observed;
    } else {
      take(event, by_type(*speaker, before, after));
    }
  }

  // The module, when debug information proves the class and there is one of it.
  const Module* only_one(const Event& event) const {
    const Speaker* speaker = event.speaker();
    if (speaker == nullptr || !speaker->certain) return nullptr;
    const auto& instances = instances_.at(speaker->type);
    return instances.size() == 1 && mirror_.encloses(scope_, instances.front()) ? instances.front() : nullptr;
  }

  // Between a layer of `first` and one of `second`, run by the same code: where that code begins, `second` begins.
  Answer at_boundary(std::size_t at, const Event& before, const Module* first, const Event& after,
                     const Module* second) const {
    const Speaker& speaker = *events_[at].speaker();
    const auto is_speakers = [&](const Module* module) {
      return !speaker.type.empty() && mirror_.at(module).type == speaker.type;
    };
    // One is above the other, and its class is speaking; unless the lower one's forward was inlined there unseen.
    const auto above = [&](const Module* outer, const Module* inner, const Event& neighbour) {
      const bool inlined = !speaker.certain && neighbour.speaker()->same_code(speaker) && !is_speakers(inner);
      return Answer{outer, inlined ? ScopeBasis::enclosing : ScopeBasis::inferred};
    };
    if (mirror_.encloses(first, second) && is_speakers(first)) return above(first, second, after);
    if (mirror_.encloses(second, first) && is_speakers(second)) return above(second, first, before);
    const std::uintptr_t start = first_sites_.at(key(speaker));
    bool begun = false, known = after.speaker() != nullptr && after.speaker()->site == start;
    for (const Event* event = &before + 1; event < &after; ++event) {
      if (event->speaker() == nullptr || !event->speaker()->same_code(speaker)) continue;
      begun = begun || (event->speaker()->site == start && event <= &events_[at]);
      known = known || event->speaker()->site == start;
    }
    if (!known) return around(first, second);
    return {begun ? second : first};
  }

  // The smallest of the user's modules around both: the answer itself, when they are one.
  Answer around(const Module* a, const Module* b) const {
    if (a == b) return {a};
    return {within(mirror_.user_module(mirror_.common_ancestor(a, b))), ScopeBasis::enclosing};
  }

  // A class without layers around it: the instance that its neighbours' modules hold.
  Answer by_type(const Speaker& speaker, const Event* before, const Event* after) const {
    const auto known = instances_.find(speaker.type);
    if (known == instances_.end()) return between(before, after);
    std::vector<const Module*> near;
    const Module* common = nullptr;
    for (const Module* instance : known->second) {
      if (!mirror_.encloses(scope_, instance)) continue;
      common = common == nullptr ? instance : mirror_.common_ancestor(common, instance);
      const Module* holder = instance == mirror_.root() ? instance : mirror_.user_module(mirror_.at(instance).parent);
      const auto holds = [&](const Event* event) { return event != nullptr && event->around == holder; };
      if (holds(before) || holds(after)) near.push_back(instance);
    }
    if (near.size() == 1) return {near.front()};
    if (common == nullptr) return between(before, after);
    if (known->second.size() == 1) return {common};
    return {within(mirror_.user_module(common)), ScopeBasis::enclosing};
  }

  Answer between(const Event* before, const Event* after) const {
    if (before == nullptr || after == nullptr) return {scope_, ScopeBasis::enclosing};
    return around(before->around, after->around);
  }

  // A module that is called twice in a row: its first layer comes again, from the same place. The call begins with the
  // operations before it that stand at the code's first site.
  void find_beginnings() {
    std::map<const Module*, const Event*> first_calls;
    const Module* open = nullptr;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      Event& event = events_[i];
      if (event.item.owner != open) first_calls.erase(event.item.owner);
      open = event.item.owner;
      if (!event.is_call() || event.speaker() == nullptr) continue;
      const auto [first, fresh] = first_calls.emplace(event.item.owner, &event);
      if (fresh || first->second->item.note->called != event.item.note->called ||
          first->second->speaker()->site != event.speaker()->site) {
        continue;
      }
      std::size_t begin = i;
      const std::uintptr_t start = first_sites_.at(key(*event.speaker()));
      for (std::size_t k = i; k > 0 && !events_[k - 1].is_call() && events_[k - 1].item.owner == open; --k) {
        if (events_[k - 1].speaker() != nullptr && events_[k - 1].speaker()->site == start) begin = k - 1;
      }
      events_[begin].item.begins = true;
      first->second = &event;
    }
  }

  const Module* scope_;
  const Session& session_;
  const ModuleMirror& mirror_;
  Symbols& symbols_;
  std::map<std::string, std::vector<const Module*>> instances_;  // the user's modules, by class
  std::map<std::string, std::uintptr_t> first_sites_;            // by code
  std::vector<Event> events_;
};

}  // namespace

std::vector<Item> find_owners(jit::Block& block, const Module* scope, const Session& session, Symbols& symbols) {
  return OwnerFinder(scope, session, symbols).run(block);
}

}  // namespace whence::native
