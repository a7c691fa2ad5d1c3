// Naming: how far a file by itself says where its nodes come from, by keys and names: the module instance, only a
// class, or nothing but the operator. Nothing is matched or inferred here; `annotate` does that. Nodes with a module
// are those of the coverage (coverage.h). A path in the name of another node counts apart: any tool may have written
// it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Naming : std::uint8_t {
  hierarchy,    // a qualified instance, by keys: pkg.whence.module, name_scopes, namespace
  names_alone,  // no such key, and an instance in the name: "/encoder/layer.0/attention/MatMul"
  classes,      // classes alone: class_hierarchy without scopes, "Linear_3", "BertModel/Linear_3/MatMul"
  simple,       // neither: "MatMul_17", "node_linear_2", no name
};
inline constexpr std::size_t naming_count = 4;
std::string_view name_of(Naming naming);  // "full_hierarchies"
std::string_view text_of(Naming naming);  // "full hierarchies"

using NamingCounts = std::array<std::int64_t, naming_count>;

// A node that names a class. With a sidecar: how many modules are of it, of which the node is one.
struct ClassNode {
  std::string node, type;
  std::int64_t instances = 0;
};

struct NamingReport {
  NamingCounts counts{};
  std::int64_t named_modules = 0;  // distinct instances that nodes name
  std::vector<ClassNode> classes;
  std::int64_t ambiguous = 0;  // those of `classes`, with a sidecar, that name classes of several modules
};

NamingReport naming_of(const CheckContext& context);

}  // namespace whence::validation
