// Modules and their calls, as torch.export notes them: `module_call_graph` lists every module, each node's
// `nn_module_stack` the calls around it, and `stack_trace` the source lines.
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
  // Fills program.modules, without types and parameters: those come with the nodes and the signature. What PyTorch
  // itself added (captured regions, guards) becomes a module only where a node or a parameter names it as one.
  ExportedModules(const Part& module_call_graph, Program& program);

  // "L__self__,,models.Net;L__self__block@1,block,models.Block": the innermost call. The empty text is the root's.
  ScopeId scope_of(std::string_view nn_module_stack);
  // The call of `module`, which lies in or below that of `scope`, that `scope` makes; one for each scope. nullopt for a
  // module elsewhere.
  std::optional<ScopeId> scope_below(ScopeId scope, ModuleId module);
  // 'File "modeling_bert.py", line 215, in forward' lines, outermost first; none_id when there are none.
  StackId stack_of(std::string_view stack_trace);

  // The module that a parameter's qualified name belongs to; the root for names that belong to none.
  ModuleId owner_of(std::string_view qualified_name);

  // Modules whose every tensor is another's, of the same class, become one under the first name, the others aliases;
  // and calls are counted. For when all nodes are read. `storage_of`: what tells tensors apart, by qualified name.
  void join_aliases(const std::map<std::string, std::string>& storage_of);

 private:
  ModuleId add(const std::string& path);
  ModuleId find(std::string_view path);
  std::string content_of(const Module& module, const std::map<std::string, std::string>& storage_of) const;
  void number_calls();

  Program& program_;
  std::unordered_map<std::string, ModuleId> by_path_;
  std::unordered_set<std::string> captured_regions_;  // listed, and not modules so far
  std::unordered_map<std::string, ScopeId> by_chain_;
  std::map<std::pair<ScopeId, ModuleId>, ScopeId> below_;
  std::unordered_map<std::string, StackId> by_trace_;
  std::map<std::string, StackId> by_frames_;
};

}  // namespace whence::pt2
