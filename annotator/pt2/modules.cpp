#include "annotator/pt2/modules.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include <re2/re2.h>

#include "annotator/origin/keys/torch.h"
#include "schema/module_path.h"
#include "schema/module_rows.h"
#include "schema/source_stack.h"

namespace whence::pt2 {
namespace {

std::string_view up_to(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view piece = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return piece;
}

// Returns true for names that PyTorch gives to captured graphs and checks: "submod_1" of a region under no_grad or
// autocast, "true_graph_0" of torch.cond, "_guards_fn". If a captured program is captured again, they appear among its
// modules.
bool is_name_of_captured_region(const std::string& name) {
  static const re2::RE2 region(
      "_guards_fn|(submod|(true|false)_graph|repeated_subgraph|while_loop_(cond|body)_graph|scan_combine_graph|"
      "sdpa_score)_?[0-9]+");
  return re2::RE2::FullMatch(name, region);
}

}  // namespace

ExportedModules::ExportedModules(const Part& module_call_graph, Program& program) : program_(program) {
  for (std::size_t i = 0; i < module_call_graph.size(); ++i) {
    const std::string& path = module_call_graph[i].at("fqn").text();
    if ((i == 0) != path.empty())
      module_call_graph.reading().corrupt("the module call graph does not begin with the root");
    if (by_path_.contains(path)) continue;
    if (is_name_of_captured_region(last_segment(path))) {
      captured_regions_.insert(path);
    } else {
      add(path);
    }
  }
  if (program_.modules.empty()) program_.modules.push_back({});
  program_.scopes.push_back({});
}

ModuleId ExportedModules::add(const std::string& path) {
  const ModuleId parent = path.empty() ? none_id : find(module_around(path));
  const ModuleId id = add_module(program_, path, "", parent);
  by_path_.emplace(path, id);
  if (parent != none_id) program_.modules[parent].children.push_back(id);
  return id;
}

// Returns the module of that path, or its nearest listed ancestor.
ModuleId ExportedModules::find(std::string_view path) {
  while (true) {
    const auto found = by_path_.find(std::string(path));
    if (found != by_path_.end()) return found->second;
    if (captured_regions_.contains(std::string(path))) return add(std::string(path));
    if (path.empty()) return root_module;
    path = module_around(path);
  }
}

ModuleId ExportedModules::owner_of(std::string_view qualified_name) { return find(module_around(qualified_name)); }

// Leaves out the root that PyTorch wraps around the model when it captures a graph inside it, in which modules are
// called
// "_export_root.layers.0".
std::vector<ExportedModules::StatedCall> ExportedModules::stated_calls(std::string_view nn_module_stack) const {
  using origin::keys::captured_root;
  const bool is_module = by_path_.contains(std::string(captured_root));
  std::vector<StatedCall> calls;
  while (!nn_module_stack.empty()) {
    std::string_view rest = up_to(nn_module_stack, ';');
    StatedCall call;
    call.key = up_to(rest, ',');
    call.path = up_to(rest, ',');
    call.type = rest;
    if (!is_module && call.path == captured_root) continue;
    if (!is_module && call.path.starts_with(captured_root) && call.path[captured_root.size()] == '.') {
      call.path.remove_prefix(captured_root.size() + 1);
    }
    calls.push_back(call);
  }
  return calls;
}

std::string ExportedModules::stated_module(std::string_view nn_module_stack) const {
  const std::vector<StatedCall> calls = stated_calls(nn_module_stack);
  return calls.empty() ? std::string() : std::string(calls.back().path);
}

void ExportedModules::set_type(ModuleId module, std::string_view type) {
  Module& entry = program_.modules[module];
  if (!entry.type.empty()) return;
  entry.type = type;
  entry.standard = entry.type.starts_with("torch.nn.");
}

ScopeId ExportedModules::scope_of_call(const std::string& chain, ScopeId around, ModuleId module) {
  const auto [known, is_new] = by_chain_.try_emplace(chain, root_scope);
  if (is_new && module != root_module) known->second = program_.scopes.add({around, module, 0});
  return known->second;
}

ScopeId ExportedModules::scope_of(std::string_view nn_module_stack) {
  if (const auto known = by_stack_.find(std::string(nn_module_stack)); known != by_stack_.end()) return known->second;
  ScopeId scope = root_scope;
  std::string chain;
  for (const StatedCall& call : stated_calls(nn_module_stack)) {
    chain.append(call.key).append(",").append(call.path).append(";");
    const ModuleId module = find(call.path);
    if (program_.modules[module].path == call.path) set_type(module, call.type);
    scope = scope_of_call(chain, scope, module);
  }
  by_stack_.emplace(nn_module_stack, scope);
  return scope;
}

// Goes from the call of the region along the stated calls inside it, as far as the modules are known.
ExportedModules::Place ExportedModules::place_in(const RegionCall& region, std::string_view nn_module_stack) {
  Place place{region.scope, ScopeBasis::enclosing};
  if (!region.modules) return place;
  const std::vector<StatedCall> calls = stated_calls(nn_module_stack);
  const auto last = std::ranges::find(calls.rbegin(), calls.rend(), region.modules->first(), &StatedCall::path);
  if (last == calls.rend()) return place;
  std::string chain = "region " + std::to_string(region.number) + ";";
  for (auto call = last.base(); call != calls.end(); ++call) {
    const auto path = region.modules->at(call->path);
    const auto module = path ? by_path_.find(*path) : by_path_.end();
    if (module == by_path_.end()) return place;
    chain.append(call->key).append(",").append(call->path).append(";");
    set_type(module->second, call->type);
    place.scope = scope_of_call(chain, place.scope, module->second);
  }
  place.basis = region.basis;
  return place;
}

bool ExportedModules::calls_modules(ScopeId scope) const {
  const Module& module = program_.modules[program_.scopes[scope].module];
  return !module.children.empty() && !module.type.starts_with("torch.fx.");
}

ScopeId ExportedModules::scope_below(ScopeId scope, ModuleId module, std::size_t region) {
  if (module == program_.scopes[scope].module) return scope;
  const auto [known, is_new] = below_.try_emplace({scope, module, region}, ScopeId(program_.scopes.size()));
  if (is_new) program_.scopes.push_back({scope, module, 0});
  return known->second;
}

StackId ExportedModules::stack_of(std::string_view stack_trace) {
  if (stack_trace.empty()) return none_id;
  const auto known = by_trace_.find(std::string(stack_trace));
  if (known != by_trace_.end()) return known->second;
  const Stack stack = read_python_trace(stack_trace);
  std::string key;
  for (const Frame& frame : stack) {
    key += frame.file + ":" + std::to_string(frame.line) + " " + frame.function + "\n" + frame.text + "\n";
  }
  StackId id = none_id;
  if (!stack.empty()) {
    const auto [same, is_new] = by_frames_.try_emplace(std::move(key), StackId(program_.stacks.size()));
    if (is_new) program_.stacks.push_back(stack);
    id = same->second;
  }
  by_trace_.emplace(stack_trace, id);
  return id;
}

void ExportedModules::join_aliases(const std::map<std::string, std::string>& storage_of) {
  auto& modules = program_.modules;
  IndexedVector<ModuleId, ModuleId> to(modules.size());  // the same module under its first name
  std::map<std::string, ModuleId> first;                 // indexed by class and tensors
  for (const ModuleId id : modules.keys()) {
    to[id] = id;
    const Module& module = modules[id];
    if (module.parent != none_id && to[module.parent] != module.parent) {
      const auto same = by_path_.find(joined_path(modules[to[module.parent]].path, last_segment(module.path)));
      if (same != by_path_.end()) to[id] = same->second;
    } else if (const std::string content = content_of(module, storage_of); !content.empty()) {
      to[id] = first.try_emplace(content, id).first->second;
    }
    if (to[id] != id) modules[to[id]].aliases.push_back(module.path);
  }
  IndexedVector<ModuleId, ModuleId> number(modules.size());
  std::int32_t next = 0;
  for (const ModuleId id : modules.keys()) {
    if (to[id] == id) number[id] = ModuleId(next++);
  }
  IndexedVector<ModuleId, Module> kept;
  for (const ModuleId old : modules.keys()) {
    if (number[old] == none_id) continue;
    Module module = std::move(modules[old]);
    if (module.parent != none_id) module.parent = number[to[module.parent]];
    std::vector<ModuleId> children;
    std::unordered_set<ModuleId> seen;
    for (const ModuleId child : module.children) {
      const ModuleId id = number[to[child]];
      if (seen.insert(id).second) children.push_back(id);
    }
    module.children = std::move(children);
    kept.push_back(std::move(module));
  }
  modules = std::move(kept);
  by_path_.clear();
  for (const ModuleId id : modules.keys()) by_path_.emplace(modules[id].path, id);
  for (Scope& scope : program_.scopes) scope.module = number[to[scope.module]];
  number_calls();
}

// Returns a key that is equal for modules that are the same object: the class, and each tensor inside by its relative
// name. Empty for fewer than two tensors: one tied tensor does not prove that two modules are the same.
std::string ExportedModules::content_of(const Module& module,
                                        const std::map<std::string, std::string>& storage_of) const {
  if (module.path.empty() || module.type.empty()) return "";
  std::string content = module.type;
  int tensors = 0;
  const std::string prefix = module.path + ".";
  for (auto entry = storage_of.lower_bound(prefix); entry != storage_of.end() && entry->first.starts_with(prefix);
       ++entry, ++tensors) {
    content += "\n" + entry->first.substr(prefix.size()) + "=" + entry->second;
  }
  return tensors < 2 ? "" : content;
}

void ExportedModules::number_calls() {
  IndexedVector<ModuleId, std::int32_t> calls(program_.modules.size(), 0);
  for (Scope& scope : program_.scopes) scope.call = calls[scope.module]++;
}

}  // namespace whence::pt2
