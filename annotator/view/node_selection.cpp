#include "annotator/view/node_selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/text/path_glob.h"
#include "schema/nearest_names.h"

namespace whence::view {

namespace {

// "a.b.c" is in "a.b.c", "a.b", "a" and "".
std::vector<std::string> enclosing(const std::string& path) {
  std::vector<std::string> all = {path};
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.', dot - 1)) {
    all.push_back(path.substr(0, dot));
    if (dot == 0) break;
  }
  return all;
}

[[noreturn]] void none(const std::string& what, const std::string& wanted, const std::set<std::string>& known) {
  throw Error(Code::usage, "no " + what + " of the file matches '" + wanted + "'",
              nearest_remedy(wanted, {known.begin(), known.end()}, "`whence show` lists modules and operators"),
              {.stage = "select"});
}

// Globs against modules, each pair looked at once.
class Globs {
 public:
  Globs(const std::vector<std::string>& globs, const std::set<std::string>& modules) : globs_(globs) {
    for (const std::string& glob : globs) {
      const bool any =
          std::ranges::any_of(modules, [&](const auto& module) { return text::matches_path(glob, module); });
      if (!any) none("module", glob, modules);
    }
  }

  bool hold(const std::string& module) {
    const auto [entry, is_new] = known_.try_emplace(module, false);
    if (!is_new) return entry->second;
    for (const std::string& path : enclosing(module)) {
      for (const std::string& glob : globs_) entry->second |= text::matches_path(glob, path);
    }
    return entry->second;
  }

 private:
  const std::vector<std::string>& globs_;
  std::map<std::string, bool> known_;
};

}  // namespace

std::vector<SelectedNode> select_nodes(const onnx_file::OnnxSummary& model, const NodeSelection& selection,
                                       const metadata::Recorded* recorded) {
  const std::vector<const onnx_file::OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  std::vector<metadata::Attribution> attributions;
  std::set<std::string> modules, op_types;
  for (const onnx_file::OnnxNode* node : nodes) {
    attributions.push_back(metadata::attribution_of(*node, recorded));
    op_types.emplace(node->op_type);
    if (!attributions.back().attributed()) continue;
    for (const std::string& module : attributions.back().modules) {
      for (std::string& path : enclosing(module)) modules.insert(std::move(path));
    }
    modules.insert("");
  }
  if (modules.empty()) {
    throw Error(Code::usage, "no node of the file says which module it belongs to", "`whence annotate` it first",
                {.stage = "select"});
  }
  for (const std::string& type : selection.op_types) {
    if (!op_types.contains(type)) none("operator", type, op_types);
  }
  Globs wanted(selection.modules, modules), unwanted(selection.excluded, modules);
  std::vector<SelectedNode> selected;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const metadata::Attribution& of = attributions[i];
    const std::string type(nodes[i]->op_type);
    const auto& types = selection.op_types;
    if (!types.empty() && std::ranges::find(types, type) == types.end()) continue;
    const auto in = [&](Globs& globs) {
      return of.attributed() && std::ranges::any_of(of.modules, [&](const auto& each) { return globs.hold(each); });
    };
    if ((!selection.modules.empty() && !in(wanted)) || in(unwanted)) continue;
    selected.push_back({std::string(nodes[i]->name), type, of.module, of.confidence});
  }
  return selected;
}

}  // namespace whence::view
