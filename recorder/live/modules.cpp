// Completes shortened scope names, finds shared modules, and adds modules, scopes and parameters to the Program.
#include "recorder/live/modules.h"

#include <algorithm>
#include <functional>
#include <set>

#include "recorder/archive/module_tree.h"
#include "schema/module_path.h"
#include "schema/module_rows.h"

namespace whence::recorder::live {

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_below(const std::string& name, const std::string& path) {
  return path.empty() || (name.size() > path.size() && name[path.size()] == '.' && name.starts_with(path));
}

// Shortens a qualified name like the ONNX exporter: "a.layer.0" becomes "layer.0", the part from the last segment that
// is not a number.
std::string shortened(const std::string& path) {
  std::size_t end = path.size();
  while (end > 0) {
    const std::size_t dot = path.rfind('.', end - 1);
    const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
    if (!is_number(std::string_view(path).substr(begin, end - begin))) return path.substr(begin);
    if (dot == std::string::npos) break;
    end = dot;
  }
  return path;
}

}  // namespace

// Returns the qualified name of each call's module. A scope in an ONNX export has only the end of the name. If the
// complete name was not reported, the module that owns the tensors read in the call is taken, else one below the
// caller.
std::vector<std::string> LiveModules::paths_of(const std::vector<LiveCall>& calls,
                                               const std::vector<std::vector<std::string>>& touched) const {
  std::vector<std::vector<std::string>> all_touched = touched;
  for (std::size_t i = calls.size(); i-- > 1;) {
    std::vector<std::string>& outer = all_touched[calls[i].parent];
    outer.insert(outer.end(), all_touched[i].begin(), all_touched[i].end());
  }
  std::set<std::string> owners;
  for (const LiveTensor& tensor : tensors_) {
    for (std::string owner = std::string(module_around(tensor.name)); !owner.empty();
         owner = std::string(module_around(owner)))
      owners.insert(owner);
  }
  std::vector<std::string> paths(calls.size());
  for (std::size_t i = 1; i < calls.size(); ++i) {
    const std::string& scope = calls[i].scope;
    const std::string& caller = paths[calls[i].parent];
    const std::size_t mark = scope.find("::");
    if (!modules_.empty() || mark == std::string::npos) {  // torch.jit.trace has complete names
      paths[i] = scope.size() > 9 ? scope.substr(9) : "";  // "__module."
      continue;
    }
    const std::string name = scope.substr(mark + 2);
    if (name.empty()) continue;
    if (calls[i].path && shortened(*calls[i].path) == name) {
      paths[i] = *calls[i].path;
      continue;
    }
    std::vector<std::string> candidates;
    const auto narrow = [&](const auto& fits) {
      std::vector<std::string> matching;
      std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(matching), fits);
      if (!matching.empty()) candidates = std::move(matching);
    };
    // The module of a call contains all tensors that the call reads.
    std::copy_if(owners.begin(), owners.end(), std::back_inserter(candidates), [&](const std::string& owner) {
      return !all_touched[i].empty() && shortened(owner) == name &&
             std::all_of(all_touched[i].begin(), all_touched[i].end(),
                         [&](const std::string& tensor) { return is_below(tensor, owner); });
    });
    narrow([&](const std::string& path) {
      return std::any_of(touched[i].begin(), touched[i].end(),
                         [&](const std::string& tensor) { return std::string(module_around(tensor)) == path; });
    });
    narrow([&](const std::string& path) { return is_below(path, caller); });
    if (candidates.size() == 1) {
      paths[i] = candidates.front();
      continue;
    }
    // Takes a module below the caller: "net.0" called by "net" is its child "0".
    const std::string own = shortened(caller);
    paths[i] = !own.empty() && is_below(name, own) ? caller + name.substr(own.size()) : joined_path(caller, name);
  }
  return paths;
}

// Maps each additional name of a shared module to its first name. Names belong to one module if the types are equal,
// all tensors are tied, and only one of the names occurs in calls, because PyTorch uses one name in all calls.
std::map<std::string, std::string> LiveModules::shared(const std::vector<Named>& modules,
                                                       const std::vector<std::string>& called) const {
  std::map<std::string, std::string> first_names;
  std::map<std::string, std::string> tensors_below;
  for (const LiveTensor& tensor : tensors_) {
    const std::string& first = tensor.tied_to.empty() ? tensor.name : tensor.tied_to;
    for (std::string path = std::string(module_around(tensor.name)); !path.empty();
         path = std::string(module_around(path))) {
      tensors_below[path].append("|").append(tensor.name, path.size()).append("=").append(first);
    }
  }
  std::map<std::string, std::vector<std::string>> forms;
  const std::set<std::string> in_calls(called.begin(), called.end());
  for (const Named& module : modules) {
    const auto below = tensors_below.find(module.path);
    if (below != tensors_below.end()) forms[module.type + below->second].push_back(module.path);
  }
  for (const auto& [form, paths] : forms) {
    if (paths.size() < 2) continue;
    const auto calls =
        std::count_if(paths.begin(), paths.end(), [&](const auto& path) { return in_calls.contains(path); });
    if (calls > 1) continue;
    for (std::size_t i = 1; i < paths.size(); ++i) first_names[paths[i]] = paths.front();
  }
  // Modules below a shared module are also shared, even without tensors to prove it.
  std::map<std::string, std::string> types;
  for (const Named& module : modules) types.emplace(module.path, module.type);
  for (const Named& module : modules) {
    const std::string parent = std::string(module_around(module.path));
    const auto above = parent.empty() ? first_names.end() : first_names.find(parent);
    if (above == first_names.end()) continue;
    const std::string same = above->second + module.path.substr(parent.size());
    const auto first_type = types.find(same);
    if (first_type == types.end() || first_type->second != module.type) continue;
    const auto first = first_names.find(same);
    first_names.emplace(module.path, first == first_names.end() ? same : first->second);
  }
  return first_names;
}

LiveModules::Ids LiveModules::fill(Program& program, const std::vector<LiveCall>& calls,
                                   const std::vector<std::vector<std::string>>& touched,
                                   const std::vector<bool>& used) const {
  std::vector<std::string> paths = paths_of(calls, touched);
  std::vector<Named> modules = modules_;
  if (modules.empty()) {  // an ONNX export: modules are found from calls and tensors
    std::map<std::string, std::string> types;
    for (std::size_t i = 1; i < calls.size(); ++i) {
      if (const auto mark = calls[i].scope.find("::"); mark != std::string::npos) {
        types.emplace(paths[i], calls[i].scope.substr(0, mark));
      }
    }
    std::vector<std::string> found;
    std::map<std::string, std::vector<std::string>> children;
    const std::function<void(const std::string&)> add = [&](const std::string& path) {
      if (path.empty()) return;
      std::vector<std::string>& siblings = children[std::string(module_around(path))];
      if (std::find(siblings.begin(), siblings.end(), path) != siblings.end()) return;
      siblings.push_back(path);
      add(std::string(module_around(path)));
    };
    for (const LiveTensor& tensor : tensors_) add(std::string(module_around(tensor.name)));
    for (const std::string& path : paths) add(path);
    const std::function<void(const std::string&)> list = [&](const std::string& path) {
      const auto type = types.find(path);
      modules.push_back({path, type == types.end() ? "" : type->second});
      for (const std::string& child : children[path]) list(child);
    };
    list("");
  }

  const std::map<std::string, std::string> first_names = shared(modules, paths);
  std::map<std::string, ModuleId> ids;
  for (const Named& module : modules) {
    const auto first = first_names.find(module.path);
    const std::string parent = std::string(module_around(module.path));
    const ModuleId parent_id = module.path.empty() || ids.count(parent) == 0 ? none_id : ids[parent];
    ModuleId id = none_id;
    if (first != first_names.end() && ids.count(first->second) > 0) {
      id = ids[first->second];
      program.modules[id].aliases.push_back(module.path);
    } else {
      id = whence::add_module(program, module.path, module.type, parent_id);
    }
    ids[module.path] = id;
    if (parent_id == none_id) continue;
    std::vector<ModuleId>& siblings = program.modules[parent_id].children;
    if (std::find(siblings.begin(), siblings.end(), id) == siblings.end()) siblings.push_back(id);
  }

  Ids result;
  add_parameters(program, ids, result);
  sum_parameters(program);

  std::map<ModuleId, std::int32_t> counts;
  result.scope_of.assign(calls.size(), root_scope);
  program.scopes.push_back({});
  counts[root_module] = 1;
  for (std::size_t i = 1; i < calls.size(); ++i) {
    const ScopeId parent = result.scope_of[calls[i].parent];
    const auto id = ids.find(paths[i]);
    const bool root_itself = paths[i].empty() && parent == root_scope;
    const std::int32_t call = root_itself || id == ids.end() ? 0 : counts[id->second]++;
    if (!used[i] || root_itself || id == ids.end()) {
      result.scope_of[i] = parent;
      continue;
    }
    result.scope_of[i] = program.scopes.add({parent, id->second, call});
  }
  return result;
}

void LiveModules::add_parameters(Program& program, const std::map<std::string, ModuleId>& ids, Ids& result) const {
  std::map<std::string, ParameterId> by_name;
  for (const LiveTensor& tensor : tensors_) {
    const auto owner = ids.find(std::string(module_around(tensor.name)));
    const auto first = by_name.find(tensor.tied_to);
    ParameterId id = none_id;
    if (first != by_name.end()) {
      id = first->second;
      program.parameters[id].aliases.push_back(tensor.name);
    } else {
      Parameter row;
      row.name = tensor.name;
      row.kind = tensor.kind;
      row.trainable = tensor.trainable;
      row.data.dtype = tensor.dtype;
      row.data.shape = tensor.shape;
      if (tensor.data.defined() && tensor.dtype != DType::undefined) {
        const auto dense = std::make_shared<at::Tensor>(tensor.data.cpu().contiguous());
        row.data.bytes = Bytes::part_of(dense, dense->const_data_ptr(), dense->nbytes());
      } else {
        row.data.bytes = Bytes::left_out(static_cast<std::size_t>(row.data.element_count()) * size_of(tensor.dtype));
      }
      id = program.parameters.add(std::move(row));
    }
    by_name[tensor.name] = id;
    result.parameter_of.push_back(id);
    if (owner == ids.end()) continue;
    std::vector<ParameterId>& own = program.modules[owner->second].own_parameters;
    if (std::find(own.begin(), own.end(), id) == own.end()) own.push_back(id);
  }
}

}  // namespace whence::recorder::live
