// Calls of a region that several modules share: torch.compiler.nested_compile_region stores the graph of the region's
// first call, and higher_order.invoke_subgraph calls it. Its nodes state the modules of the first call only:
//
//   first call of the region, in layers.0    layers.0, layers.0.fc
//   later call, in layers.2                  layers.2, layers.2.fc
//
// The module of a later call is stated on the call itself. Its modules inside follow from the module of the call, and
// from the parameters that the call passes where the first call passes others. If the parameters contradict the module,
// only they count, so a module is left out rather than guessed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/origin/module_renames.h"
#include "schema/program.h"

namespace whence::pt2 {

// The qualified names of an operand that is a parameter, several if it is shared; empty for any other operand.
using OperandNames = std::vector<std::string>;

// The modules that the first call of a region states, and those of another call in their place.
class RegionModules {
 public:
  // The first call: its modules are those that the graph states.
  explicit RegionModules(std::string_view module) : first_(module), here_(module) {}
  // A later call in module `here`; `operands` are its operands, `first_operands` those of the first call, in `first`.
  RegionModules(std::string_view first, std::string_view here, const std::vector<OperandNames>& first_operands,
                const std::vector<OperandNames>& operands);

  // Returns the module of this call for a module of the first call; nullopt if unknown.
  std::optional<std::string> at(std::string_view module) const;
  // The module of the first call.
  const std::string& first() const { return first_; }

 private:
  std::string moved(std::string_view module) const;  // replaces the prefix first_ with here_

  std::string first_, here_;
  bool follows_call_ = true;    // false if parameters contradict the module of the call
  bool in_one_module_ = false;  // both calls are in one module, where they may call different modules
  origin::ModuleRenames renames_;
};

// A call of a region, while its graph is read.
struct RegionCall {
  std::optional<RegionModules> modules;  // nullopt if the call does not state its module
  ScopeId scope;                         // the call of the module that calls the region
  ScopeBasis basis;                      // how certain the modules inside are
  std::size_t number = 0;                // different for each call
};

}  // namespace whence::pt2
