// Hierarchy coverage: for each module of the sidecar, which recorded operations and parameters arrived in the file, and
// which were fused, folded or eliminated, and why.
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

// The figures of a module, including the modules below it. A module with several names is listed under the first.
struct ModuleHierarchy : origin::ModulePlace {
  std::string type;
  std::int64_t calls = 0;  // calls of the module itself
  std::int64_t nodes = 0;  // in the file; a node of several modules counts for each of them
  std::array<std::int64_t, fate_count> operations{};
  std::array<std::int64_t, arrival_count> parameters{};  // and buffers

  std::int64_t operator[](Fate fate) const { return operations[static_cast<std::size_t>(fate)]; }
  std::int64_t operator[](Arrival arrival) const { return parameters[static_cast<std::size_t>(arrival)]; }
  std::int64_t recorded() const;  // number of operations
  std::int64_t recorded_parameters() const;
  std::int64_t kept_parameters() const;    // with an initializer of their own
  std::int64_t merged_parameters() const;  // combined into other initializers
  // Returns true if every operation has nodes of its own and every parameter an initializer of its own.
  bool complete() const { return (*this)[Fate::arrived] == recorded() && kept_parameters() == recorded_parameters(); }
};

// An operation without a node of its own.
struct LostOperation {
  std::int32_t index = 0;  // of the recorded operation
  std::string op, module;  // "aten::dropout"; qualified name
  std::int32_t call = 0;   // call number of the module
  Fate fate = Fate::unknown;
  Elimination reason = Elimination::none;
};

struct FoundParameter {
  std::string name, form;  // "float32[4,3]"
  Arrival arrival = Arrival::missing;
  std::string initializer;  // set if its name differs
};

struct Hierarchy {
  // False if the file was neither exported from the sidecar's program nor annotated with it, so that its nodes do not
  // state which operations they represent. Then operations are unknown, and only parameters are reported.
  bool belongs = false;
  origin::ModuleTree<ModuleHierarchy> modules;  // depth first; the root has the figures of the file
  std::vector<LostOperation> lost;              // in execution order, including fused operations
  std::vector<FoundParameter> parameters;
};

// `path`: the ONNX file. Requires context.program.
Hierarchy hierarchy_of(const CheckContext& context, const Coverage& coverage, const std::string& path);

}  // namespace whence::validation
