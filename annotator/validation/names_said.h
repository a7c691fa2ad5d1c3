// StatedNames: the modules and operation identities that nodes state, for checks that compare a node with others.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "annotator/metadata/operation_ids.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

struct StatedNames {
  std::set<std::string, std::less<>> modules, ids;

  void add(const metadata::Attribution& attribution) {
    const auto all = metadata::parse_ids(attribution.id);
    ids.insert(all.begin(), all.end());
    modules.insert(attribution.modules.begin(), attribution.modules.end());
  }

  // Skips nodes that state only an enclosing module (ancestor): they have no module of their own to pass on.
  void add_own(const metadata::Attribution& attribution) {
    if (attribution.confidence < origin::Confidence::ancestor) add(attribution);
  }
};

inline StatedNames names_of(const metadata::Attribution& attribution) {
  StatedNames names;
  names.add(attribution);
  return names;
}

inline bool is_unattributed(const view::DiffNode& node) { return !node.attribution.attributed(); }

inline std::string missing_from(const std::set<std::string, std::less<>>& all,
                                const std::set<std::string, std::less<>>& names) {
  std::string text;
  for (const std::string& name : all) {
    if (!names.contains(name)) text.append(text.empty() ? "'" : ", '").append(name).append("'");
  }
  return text;
}

// Returns the names of `all` that are not in `stated`: "'a.b', 'a.c'". Compares identities only if no module is
// missing.
inline std::string missing_from(const StatedNames& all, const StatedNames& stated) {
  std::string text = missing_from(all.modules, stated.modules);
  return text.empty() ? missing_from(all.ids, stated.ids) : text;
}

// Returns the names that node `at` states and none of its sources states; "" if there are none. A node with confidence
// `ancestor` may also name a module that encloses a source's module.
std::string names_without_source(std::size_t at, const ToolEdit& edit);

}  // namespace whence::validation
