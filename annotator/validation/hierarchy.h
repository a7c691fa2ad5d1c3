// Hierarchy coverage: by module of the sidecar, the operations that were recorded against the nodes that arrived, and
// the parameters; what was fused, folded or eliminated on the way, and why.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "annotator/origin/module_tree.h"
#include "annotator/validation/coverage.h"
#include "annotator/validation/operation_fates.h"
#include "annotator/validation/parameter_fates.h"

namespace whence::validation {

// A module and all below it. A module held under several names stands under the first.
struct ModuleHierarchy : origin::ModulePlace {
  std::string type;
  std::int64_t calls = 0;  // calls of the module itself
  std::int64_t nodes = 0;  // that arrived; one of several modules counts for each
  std::array<std::int64_t, fate_count> operations{};
  std::array<std::int64_t, arrival_count> parameters{};  // and buffers

  std::int64_t operator[](Fate fate) const { return operations[static_cast<std::size_t>(fate)]; }
  std::int64_t operator[](Arrival arrival) const { return parameters[static_cast<std::size_t>(arrival)]; }
  std::int64_t recorded() const;  // operations
  std::int64_t recorded_parameters() const;
  std::int64_t kept_parameters() const;    // have an initializer of their own
  std::int64_t merged_parameters() const;  // their numbers went into those of other initializers
  // Everything recorded has nodes of its own, and every parameter is there.
  bool complete() const { return (*this)[Fate::arrived] == recorded() && kept_parameters() == recorded_parameters(); }
};

// An operation without a node of its own.
struct LostOperation {
  std::int32_t index = 0;  // the recorded operation's
  std::string op, module;  // "aten::dropout"; qualified name
  std::int32_t call = 0;   // the module's call
  Fate fate = Fate::unknown;
  Elimination reason = Elimination::none;
};

struct FoundParameter {
  std::string name, form;  // "float32[4,3]"
  Arrival arrival = Arrival::missing;
  std::string initializer;  // when it has another name
};

struct Hierarchy {
  // False: the file was neither exported from the sidecar's program nor annotated with it, so its nodes do not say
  // which operations they stand for. Then operations are unknown, and only parameters are reported.
  bool belongs = false;
  origin::ModuleTree<ModuleHierarchy> modules;  // depth first: the figures of the root are those of the file
  std::vector<LostOperation> lost;              // fused ones too; in execution order
  std::vector<FoundParameter> parameters;
};

// context.program must be there. `path`: the ONNX file.
Hierarchy hierarchy_of(const CheckContext& context, const Coverage& coverage, const std::string& path);

}  // namespace whence::validation
