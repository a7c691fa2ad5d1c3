// Modules and their calls, as torch.export records them: `module_call_graph` lists every module, each node's
// `nn_module_stack` its enclosing calls, and `stack_trace` the source lines.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "annotator/pt2/part.h"
#include "annotator/pt2/region_calls.h"
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
  // Like scope_of(), for a node in the graph of a region, whose text states the modules of the region's first call.
  struct Place {
    ScopeId scope;
    ScopeBasis basis;
  };
  Place place_in(const RegionCall& region, std::string_view nn_module_stack);
  // Returns the innermost module that the text states, as stated.
  std::string stated_module(std::string_view nn_module_stack) const;
  // Returns true if the module has modules inside and runs Python code, not a captured graph.
  bool calls_modules(ScopeId scope) const;
  // Returns the call of `module`, which is the module of `scope` or below it, inside the call `scope`: one call per
  // scope and `region` (the number of a region's call, 0 outside).
  ScopeId scope_below(ScopeId scope, ModuleId module, std::size_t region);
  // Parses lines such as 'File "modeling_bert.py", line 215, in forward', outermost first; none_id if there are none.
  StackId stack_of(std::string_view stack_trace);

  // Returns the module that a parameter's qualified name belongs to; the root for names that belong to none.
  ModuleId owner_of(std::string_view qualified_name);

  // Joins modules of the same class with the same tensors: the first name stays, the others become aliases. Then
  // numbers the calls. Call it after reading all nodes. `storage_of`: storage keys by qualified name.
  void join_aliases(const std::map<std::string, std::string>& storage_of);

 private:
  // One call in an nn_module_stack: "L__self__block@1,block,models.Block".
  struct StatedCall {
    std::string_view key;  // different for each call of the module
    std::string_view path, type;
  };
  std::vector<StatedCall> stated_calls(std::string_view nn_module_stack) const;
  // Returns the scope of a call, `chain` being the keys of its calls from the root.
  ScopeId scope_of_call(const std::string& chain, ScopeId around, ModuleId module);
  void set_type(ModuleId module, std::string_view type);

  ModuleId add(const std::string& path);
  ModuleId find(std::string_view path);
  std::string content_of(const Module& module, const std::map<std::string, std::string>& storage_of) const;
  void number_calls();

  Program& program_;
  std::unordered_map<std::string, ModuleId> by_path_;
  std::unordered_set<std::string> captured_regions_;   // listed, but not used as modules so far
  std::unordered_map<std::string, ScopeId> by_stack_;  // complete texts
  std::unordered_map<std::string, ScopeId> by_chain_;  // keys and paths of calls, from the root or a region's call
  std::map<std::tuple<ScopeId, ModuleId, std::size_t>, ScopeId> below_;
  std::unordered_map<std::string, StackId> by_trace_;
  std::map<std::string, StackId> by_frames_;
};

}  // namespace whence::pt2
