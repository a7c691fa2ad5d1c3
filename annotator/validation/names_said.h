// NamesSaid: the modules and identities that nodes say, for the checks that hold one node against others.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "annotator/metadata/operation_ids.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

struct NamesSaid {
  std::set<std::string, std::less<>> modules, ids;

  void add(const metadata::Attribution& attribution) {
    const auto all = metadata::parse_ids(attribution.id);
    ids.insert(all.begin(), all.end());
    modules.insert(attribution.modules.begin(), attribution.modules.end());
  }

  // Helpers, of which only a module around is known, have no module of their own to hand on.
  void add_own(const metadata::Attribution& attribution) {
    if (attribution.confidence < origin::Confidence::ancestor) add(attribution);
  }
};

inline NamesSaid names_of(const metadata::Attribution& attribution) {
  NamesSaid said;
  said.add(attribution);
  return said;
}

inline bool is_unknown(const view::DiffNode& each) { return !each.attribution.attributed(); }

inline std::string missing_from(const std::set<std::string, std::less<>>& all,
                                const std::set<std::string, std::less<>>& names) {
  std::string text;
  for (const std::string& name : all) {
    if (!names.contains(name)) text.append(text.empty() ? "'" : ", '").append(name).append("'");
  }
  return text;
}

// "'a.b', 'a.c'": what of `all` a node does not say; identities only where it names all modules.
inline std::string missing_from(const NamesSaid& all, const NamesSaid& said) {
  std::string text = missing_from(all.modules, said.modules);
  return text.empty() ? missing_from(all.ids, said.ids) : text;
}

// Returns what a node names and none of the nodes before that it may stand for does; "" if there is nothing. A node
// that is sure of no module may name one around theirs.
std::string named_beside_sources(std::size_t at, const ToolEdit& edit);

}  // namespace whence::validation
