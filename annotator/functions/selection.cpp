#include "annotator/functions/selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/functions/block.h"
#include "annotator/functions/function_maker.h"
#include "annotator/functions/modules_in_bodies.h"
#include "annotator/text/patterns.h"
#include "schema/module_path.h"
#include "schema/nearest_names.h"

namespace whence::functions {

namespace {

// A function with fewer nodes is not worth a call.
constexpr std::size_t min_function_nodes = 3;

[[noreturn]] void throw_no_match(const std::string& kind, const std::string& pattern,
                                 const std::set<std::string>& known) {
  throw Error(Code::usage, "no " + kind + " of the file matches '" + pattern + "'",
              nearest_remedy(pattern, {known.begin(), known.end()}, "`whence show` lists the modules"),
              {.stage = "functions"});
}

class Selector {
 public:
  Selector(const WorkGraph& graph, const FunctionChoice& options)
      : graph_(graph), instances_(graph.instances()), options_(options) {
    for (const CallIndex id : instances_.keys()) {
      const ModuleCall& instance = instances_[id];
      if (instance.depth == 0) continue;
      calls_.push_back(id);
      paths_.insert(instance.path);
      if (!instance.type.empty()) types_.insert(last_segment(instance.type));
    }
  }

  std::vector<CallIndex> select() const {
    std::set<CallIndex> chosen;
    const auto choose = [&](const std::string& kind, const std::string& pattern, const std::set<std::string>& known,
                            const auto& matches) {
      const std::size_t count_before = chosen.size();
      bool any_match = false;
      for (const CallIndex id : calls_) {
        if (matches(instances_[id])) chosen.insert(id), any_match = true;
      }
      if (any_match || count_before != chosen.size()) return;
      throw_if_in_body(pattern, matches);
      throw_no_match(kind, pattern, known);
    };
    for (const std::string& pattern : options_.modules) {
      const text::Patterns modules = text::Patterns::of_paths({pattern});
      choose("module", pattern, paths_, [&](const ModuleCall& each) { return modules.match(each.path); });
    }
    for (const std::string& type : options_.types) {
      choose("class", type, types_,
             [&](const ModuleCall& each) { return each.type == type || last_segment(each.type) == type; });
    }
    for (const CallIndex id : calls_) {
      if (options_.depth && instances_[id].depth <= *options_.depth) chosen.insert(id);
    }
    return {chosen.begin(), chosen.end()};
  }

 private:
  template <class Matches>
  void throw_if_in_body(const std::string& pattern, const Matches& matches) const {
    for (const auto& [path, body] : modules_in_bodies(graph_)) {
      ModuleCall instance;
      instance.path = path, instance.type = body.type;
      if (!matches(instance)) continue;
      throw Error(Code::usage, "'" + pattern + "' matches only modules in the body of " + body.holder,
                  "modules in bodies cannot become functions: choose an enclosing module",
                  {.stage = "functions", .module = path, .has_module = true});
    }
  }

  const WorkGraph& graph_;
  const Instances& instances_;
  const FunctionChoice& options_;
  std::vector<CallIndex> calls_;
  std::set<std::string> paths_, types_;
};

// Calls with equal blocks.
struct Candidate {
  std::vector<CallIndex> calls;
  std::vector<std::int32_t> nodes;  // nodes of the first call
  bool container = false;
};

// Chooses repeated blocks, in the order of the nodes that they save. Blocks within a chosen block count once, because
// its function is written once. Containers come last, and only their nodes outside of chosen blocks count.
class RepeatedBlocks {
 public:
  explicit RepeatedBlocks(const WorkGraph& graph)
      : graph_(graph), chosen_(graph.instances().size(), 0), copies_(graph.instances().size(), 0) {
    find();
  }

  std::vector<CallIndex> choose() {
    for (const bool containers : {false, true}) {
      while (const Candidate* best = best_of(containers)) {
        for (const CallIndex call : best->calls) chosen_[call] = copies_[call] = 1;
        copies_[best->calls.front()] = 0;
      }
    }
    std::vector<CallIndex> calls;
    for (const CallIndex call : chosen_.keys()) {
      if (chosen_[call] != 0) calls.push_back(call);
    }
    return calls;
  }

 private:
  const Candidate* best_of(bool containers) const {
    const Candidate* best = nullptr;
    std::size_t most_saved = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.container != containers) continue;
      const auto counted_calls = static_cast<std::size_t>(std::ranges::count_if(
          candidate.calls, [&](CallIndex call) { return chosen_[call] == 0 && !is_in_copy(call); }));
      if (counted_calls < 2) continue;
      const std::size_t nodes = containers ? remaining_nodes(candidate) : candidate.nodes.size();
      const std::size_t saved = nodes < min_function_nodes ? 0 : (counted_calls - 1) * (nodes - 1);
      if (saved > most_saved) best = &candidate, most_saved = saved;
    }
    return best;
  }

  bool is_in_copy(CallIndex call) const {
    for (CallIndex id = graph_.instances()[call].parent; id.exists(); id = graph_.instances()[id].parent) {
      if (copies_[id] != 0) return true;
    }
    return false;
  }

  // Returns the number of nodes of the first call if each chosen call within it is one node.
  std::size_t remaining_nodes(const Candidate& candidate) const {
    std::set<CallIndex> calls;
    std::size_t own = 0;
    for (const std::int32_t node : candidate.nodes) {
      CallIndex outermost;
      for (CallIndex id = graph_.nodes()[node].instance; id.exists() && id != candidate.calls.front();
           id = graph_.instances()[id].parent) {
        if (chosen_[id] != 0) outermost = id;
      }
      !outermost.exists() ? void(++own) : void(calls.insert(outermost));
    }
    return own + calls.size();
  }

  // Finds repeated blocks depth by depth: calls of one depth do not contain each other.
  void find() {
    std::map<int, std::vector<CallIndex>> by_depth;
    for (const CallIndex id : graph_.instances().keys()) {
      const int depth = graph_.instances()[id].depth;
      if (depth > 0) by_depth[depth].push_back(id);
    }
    std::map<std::pair<std::string, std::string>, Candidate> found;
    for (const auto& [depth, calls] : by_depth) {
      for (const Region& region : regions_of(graph_, calls)) {
        if (!region.refusal.empty() || region.nodes.size() < min_function_nodes) continue;
        const ModuleBlock block = block_of(graph_, region);
        Candidate& candidate = found[{graph_.instances()[region.instance].type, block.key}];
        candidate.calls.push_back(region.instance);
        if (candidate.nodes.empty()) candidate.nodes = region.nodes;
        candidate.container = is_container(graph_.instances()[region.instance]);
      }
    }
    for (auto& [key, candidate] : found) {
      if (candidate.calls.size() > 1) candidates_.push_back(std::move(candidate));
    }
  }

  const WorkGraph& graph_;
  std::vector<Candidate> candidates_;
  IndexedVector<CallIndex, char> chosen_;
  IndexedVector<CallIndex, char> copies_;  // chosen calls that share another call's function
};

}  // namespace

std::vector<CallIndex> selected_calls(const WorkGraph& graph, const FunctionChoice& options) {
  if (graph.instances().size() == 0) {
    throw Error(Code::usage, "no node of the file names its module", "run `whence annotate` on it first",
                {.file = graph.parts().path, .stage = "functions"});
  }
  if (!options.automatic()) return Selector(graph, options).select();
  std::vector<CallIndex> chosen = RepeatedBlocks(graph).choose();
  if (chosen.empty()) {
    throw Error(Code::usage, "no module with three or more nodes is repeated in the file",
                "choose modules with --modules GLOB or --types LIST",
                {.file = graph.parts().path, .stage = "functions"});
  }
  return chosen;
}

}  // namespace whence::functions
