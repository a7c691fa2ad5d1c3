// Modules and their calls, as torch.export records them: `module_call_graph` lists every module, each node's
// `nn_module_stack` its enclosing calls, and `stack_trace` the source lines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "annotator/pt2/part.h"
#include "schema/program.h"

namespace whence::pt2 {

class ExportedModules {
 public:
  // Fills program.modules, without types and parameters, which come from the nodes and the signature. An entry that
  // PyTorch added (captured regions, guards) becomes a module only if a node or a parameter refers to it.
  ExportedModules(const Part& module_call_graph, Program& program);

  // Parses "L__self__,,models.Net;L__self__block@1,block,models.Block" and returns the innermost call. Empty text is
  // the root.
  ScopeId scope_of(std::string_view nn_module_stack);
  // Returns the call of `module` inside the call `scope`; one call per scope. `module` must be the module of `scope` or
  // below it, otherwise nullopt.
  std::optional<ScopeId> scope_below(ScopeId scope, ModuleId module);
  // Parses lines such as 'File "modeling_bert.py", line 215, in forward', outermost first; none_id if there are none.
  StackId stack_of(std::string_view stack_trace);

  // Returns the module that a parameter's qualified name belongs to; the root for names that belong to none.
  ModuleId owner_of(std::string_view qualified_name);

  // Joins modules of the same class with the same tensors: the first name stays, the others become aliases. Then
  // numbers the calls. Call it after reading all nodes. `storage_of`: storage keys by qualified name.
  void join_aliases(const std::map<std::string, std::string>& storage_of);

 private:
  ModuleId add(const std::string& path);
  ModuleId find(std::string_view path);
  std::string content_of(const Module& module, const std::map<std::string, std::string>& storage_of) const;
  void number_calls();

  Program& program_;
  std::unordered_map<std::string, ModuleId> by_path_;
  std::unordered_set<std::string> captured_regions_;  // listed, but not used as modules so far
  std::unordered_map<std::string, ScopeId> by_chain_;
  std::map<std::pair<ScopeId, ModuleId>, ScopeId> below_;
  std::unordered_map<std::string, StackId> by_trace_;
  std::map<std::string, StackId> by_frames_;
};

}  // namespace whence::pt2
