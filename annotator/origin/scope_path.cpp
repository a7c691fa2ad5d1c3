#include "annotator/origin/scope_path.h"

#include <algorithm>
#include <cctype>

#include "schema/module_path.h"
#include "schema/sort_unique.h"

namespace whence::origin {
namespace {

// Returns the start of the segment at `at`. A number includes its container: "0" in "layer1.0" starts at "layer1".
std::size_t first_word(const std::string& name, std::size_t at) {
  while (at > 0 && std::isdigit(static_cast<unsigned char>(name[at])) != 0) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    if (name.find_first_not_of("0123456789", at) < end) break;
    const std::size_t before = name.rfind('.', at - 2);
    at = at < 2 || before == std::string::npos ? 0 : before + 1;
  }
  return at;
}

}  // namespace

ScopeId scope_of(const NodeOrigin& origin, const Program& program, const std::vector<const Node*>& operations) {
  if (origin.ops.empty()) return root_scope;
  if (origin.ops.size() == 1) return operations[origin.ops.front()]->origin.scope;
  std::vector<ScopeId> scopes;
  for (const std::int32_t op : origin.ops) scopes.push_back(operations[op]->origin.scope);
  sort_unique(scopes);
  return common_ancestor(program, scopes);
}

std::string scope_path(const std::vector<std::string>& modules) {
  if (modules.empty() || modules.back().empty()) return "";
  const std::string& inner = modules.back();
  std::vector<std::size_t> cuts;  // name lengths of the called modules around `inner`
  for (std::size_t i = 0; i + 1 < modules.size(); ++i) {
    if (!modules[i].empty() && modules[i] != inner && at_or_below(inner, modules[i])) cuts.push_back(modules[i].size());
  }
  cuts.push_back(inner.size());
  std::ranges::sort(cuts);
  std::string path;
  std::size_t start = 0;
  for (const std::size_t cut : cuts) {
    if (cut <= start) continue;  // a module called itself
    const std::size_t first = start == 0 ? 0 : start + 1;
    path += "/" + inner.substr(first_word(inner, first), cut - first_word(inner, first));
    start = cut;
  }
  return path;
}

std::string scope_path(const Program& program, ScopeId scope) {
  std::vector<std::string> modules;
  for (; scope != none_id; scope = program.scopes[scope].parent) modules.push_back(program.module_path(scope));
  std::ranges::reverse(modules);
  return scope_path(modules);
}

}  // namespace whence::origin
