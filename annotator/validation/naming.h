// Naming: how precisely the keys and names in a file state the origin of its nodes: a module instance, only a class, or
// only the operator. Nothing is matched or inferred here; `annotate` does that. A node has a module if coverage.h
// counts one. A node without a module but with a path in its name is counted separately: any tool may have written it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/validation/check.h"

namespace whence::validation {

enum class Naming : std::uint8_t {
  hierarchy,   // a qualified instance, by keys: pkg.whence.module, name_scopes, namespace
  names_only,  // no such key, but an instance in the name: "/encoder/layer.0/attention/MatMul"
  classes,     // only classes: class_hierarchy without scopes, "Linear_3", "BertModel/Linear_3/MatMul"
  simple,      // neither instance nor class: "MatMul_17", "node_linear_2", no name
};
inline constexpr std::size_t naming_count = 4;
std::string_view name_of(Naming naming);  // "full_hierarchies"
std::string_view text_of(Naming naming);  // "full hierarchies"

using NamingCounts = std::array<std::int64_t, naming_count>;

// A node that names a class. `instances`: the number of modules of that class in the sidecar, 0 without a sidecar.
struct ClassNode {
  std::string node, type;
  std::int64_t instances = 0;
};

struct NamingReport {
  NamingCounts counts{};
  std::int64_t named_modules = 0;  // distinct instances that nodes name
  std::vector<ClassNode> classes;
  std::int64_t ambiguous = 0;  // number of `classes` with several instances
};

NamingReport naming_of(const CheckContext& context);

}  // namespace whence::validation
