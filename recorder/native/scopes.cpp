// Decides for each operation whether its module was observed or inferred, and moves it into that module's scope.
#include "recorder/native/scopes.h"

#include <algorithm>
#include <unordered_map>

#include "recorder/base/live_mark.h"
#include "recorder/native/owners.h"

namespace whence::native {

using recorder::enclosing_mark;
using recorder::inferred_mark;

namespace jit = torch::jit;
using Module = torch::nn::Module;

namespace {

class ScopeMaker {
 public:
  ScopeMaker(jit::Graph& graph, const Session& session, Symbols& symbols)
      : graph_(graph),
        session_(session),
        mirror_(session.mirror()),
        symbols_(symbols),
        frame_finder_(mirror_, symbols) {}

  ScopeCount run() {
    scope(*graph_.block(), mirror_.root());
    for (const Decision& decision : decisions_) write(decision);
    return count_;
  }

 private:
  struct Decision {
    jit::Node* node = nullptr;
    const Note* note = nullptr;
    ScopeBasis basis = ScopeBasis::observed;
  };

  void scope(jit::Block& block, const Module* module) {
    const bool announced = all_announce(module) && !is_contradicted(block, module);
    // Handles existing scopes first, before any node is moved.
    for (jit::Node* node : block.nodes()) {
      const Note* note = session_.note(node);
      if (note != nullptr && note->called != nullptr) scope(*node->blocks()[0], note->called);
    }
    if (announced) {
      for (jit::Node* node : block.nodes()) {
        const Note* note = session_.note(node);
        if (note != nullptr && note->called == nullptr) decide(node, *note, ScopeBasis::observed);
      }
      return;
    }
    const std::vector<Item> items = find_owners(block, module, session_, frame_finder_);
    for (const Item& item : items) {
      if (item.note->called == nullptr) decide(item.node, *item.note, item.basis);
      if (item.call_uncertain) mark_inferred(item.node);
    }
    wrap(block, module, items);
  }

  // Returns true if all user's modules below announce their calls. All other operations are then the module's own.
  bool all_announce(const Module* module) const {
    for (const Module* child : mirror_.at(module).children) {
      const MirroredModule& below = mirror_.at(child);
      if (below.kind == ModuleKind::user && !session_.announces_itself(child)) return false;
      if (!all_announce(child)) return false;
    }
    return true;
  }

  // Returns true if code of another user's module ran in this scope: a function without a ModuleScope, of a class that
  // has one in another function. Frames outside of the scope count only if they are certain: the scope's own code may
  // have been inlined into them.
  bool is_contradicted(jit::Block& block, const Module* module) {
    if (mirror_.at(module).kind != ModuleKind::user) return false;
    const Note* opened = block.owningNode() == nullptr ? nullptr : session_.note(block.owningNode());
    const std::size_t around = opened == nullptr ? 0 : opened->stack.size();
    for (jit::Node* node : block.nodes()) {
      const Note* note = session_.note(node);
      if (note == nullptr || note->called != nullptr) continue;
      const auto inside = static_cast<std::ptrdiff_t>(note->stack.size() - std::min(note->stack.size(), around));
      const ModelFrames all = frame_finder_.frames_of(note->stack);
      const ModelFrames within = frame_finder_.frames_of({note->stack.begin(), note->stack.begin() + inside});
      const auto contradicts = [&](const ModelFrames& frames) {
        return !frames.empty() && !frames[0].type.empty() && !frame_finder_.may_run(module, frames[0].type);
      };
      if (contradicts(within) || (contradicts(all) && all[0].certain)) return true;
    }
    return false;
  }

  // Returns the user's modules below `scope`, down to `owner`.
  std::vector<const Module*> chain(const Module* scope, const Module* owner) const {
    std::vector<const Module*> modules;
    for (const Module* module = owner; module != scope && module != nullptr; module = mirror_.at(module).parent) {
      if (mirror_.at(module).kind == ModuleKind::user) modules.insert(modules.begin(), module);
    }
    return modules;
  }

  // Moves each item into the scope of its owner, together with the unrecorded nodes before it, such as its constants.
  void wrap(jit::Block& block, const Module* scope, const std::vector<Item>& items) {
    std::vector<jit::Node*> nodes;
    for (jit::Node* node : block.nodes()) {
      if (node->kind() != jit::prim::TracedAttr) nodes.push_back(node);
    }
    std::vector<std::pair<const Module*, jit::Node*>> open;
    auto item = items.begin();
    std::vector<jit::Node*> waiting;
    for (jit::Node* node : nodes) {
      waiting.push_back(node);
      if (item == items.end() || node != item->node) continue;
      const std::vector<const Module*> owner_chain = chain(scope, item->owner);
      std::size_t common = 0;
      while (common < open.size() && common < owner_chain.size() && open[common].first == owner_chain[common]) ++common;
      for (std::size_t i = 0; i < common; ++i) {
        if (owner_chain[i] == item->starts_call_of) common = i;
      }
      open.resize(common);
      for (; common < owner_chain.size(); ++common) {
        jit::Node* inner = graph_.create(jit::prim::TracedModuleForward, 0);
        inner->s_(jit::attr::scope, mirror_.at(owner_chain[common]).scope);
        inner->addBlock();
        if (open.empty()) {
          inner->insertBefore(waiting.front());
        } else {
          inner->insertBefore(open.back().second->blocks()[0]->return_node());
        }
        open.emplace_back(owner_chain[common], inner);
      }
      if (!open.empty()) {
        for (jit::Node* each : waiting) each->moveBefore(open.back().second->blocks()[0]->return_node());
      }
      waiting.clear();
      ++item;
    }
  }

  void decide(jit::Node* node, const Note& note, ScopeBasis basis) {
    decided_.emplace(node, decisions_.size());
    decisions_.push_back({node, &note, basis});
  }

  // Marks the node and all nodes in it as inferred at best.
  void mark_inferred(jit::Node* node) {
    if (const auto found = decided_.find(node); found != decided_.end()) {
      Decision& decision = decisions_[found->second];
      decision.basis = std::max(decision.basis, ScopeBasis::inferred);
    }
    for (jit::Block* block : node->blocks()) {
      for (jit::Node* inner : block->nodes()) mark_inferred(inner);
    }
  }

  // Writes source lines in the form of a trace from Python: "file(line): function", innermost first.
  void write(const Decision& decision) {
    const ScopeBasis basis = decision.basis;
    ++(basis == ScopeBasis::observed   ? count_.exact
       : basis == ScopeBasis::inferred ? count_.inferred
                                       : count_.enclosing);
    std::string text;
    for (const NativeFrame& frame : decision.note->stack) {
      for (const Frame& line : symbols_.at(frame.site)) {
        if (line.function.empty() || is_in_headers(line.function)) continue;
        text += line.file + "(" + std::to_string(line.line) + "): " + line.function + "\n";
      }
    }
    if (basis != ScopeBasis::observed) text += basis == ScopeBasis::inferred ? inferred_mark : enclosing_mark;
    if (!text.empty()) {
      const auto length = text.size();
      decision.node->setSourceRange(jit::SourceRange(std::make_shared<jit::Source>(std::move(text)), 0, length));
    }
  }

  jit::Graph& graph_;
  const Session& session_;
  const ModuleMirror& mirror_;
  Symbols& symbols_;
  ModelFrameFinder frame_finder_;
  std::vector<Decision> decisions_;
  std::unordered_map<const jit::Node*, std::size_t> decided_;
  ScopeCount count_;
};

}  // namespace

ScopeCount move_into_scopes(jit::Graph& graph, const Session& session, Symbols& symbols) {
  return ScopeMaker(graph, session, symbols).run();
}

}  // namespace whence::native
