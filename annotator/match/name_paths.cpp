#include "annotator/match/name_paths.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "annotator/match/file_structure.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/origin/carried_token.h"
#include "annotator/text/path_segments.h"
#include "schema/module_path.h"

namespace whence::match {

std::string module_of_path(std::string_view name_path) {
  if (!name_path.starts_with('/')) return "";
  std::string path, last;
  name_path.remove_prefix(1);
  while (!name_path.empty()) {
    const std::size_t slash = std::min(name_path.find('/'), name_path.size());
    std::string segment(name_path.substr(0, slash));
    name_path.remove_prefix(std::min(slash + 1, name_path.size()));
    // A segment repeats the complete last one, "/down.0/down.0.1", or its end: "/backbone.body/body.2".
    for (const std::string& repeated : {last, last.substr(last.rfind('.') + 1)}) {
      if (repeated.empty() || !segment.starts_with(repeated + ".")) continue;
      path.resize(path.size() - repeated.size());
      path += segment;
      last = std::exchange(segment, "");
      break;
    }
    if (segment.empty()) continue;
    path += (path.empty() ? "" : ".") + segment;
    last = std::move(segment);
  }
  return path;
}

std::string_view without_fusion(std::string_view name) {
  constexpr std::string_view mark = "Fusion_";
  constexpr std::string_view roles[] = {"W_", "B_", "Mul_B_", "Add_B_", "BN_B_"};
  const std::size_t at = name.substr(0, name.find('.')).find(mark);
  if (at == std::string_view::npos) return name;
  name.remove_prefix(at + mark.size());
  for (const std::string_view role : roles) {
    if (name.starts_with(role)) return name.substr(role.size());
  }
  return name;
}

std::set<std::string_view> called_paths(const onnx_file::OnnxSummary& model,
                                        const std::set<std::string_view>& parameters) {
  const ScopeReader reader(model);
  std::set<std::string_view> paths;
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) {
    for (const std::string_view name : {node->name, node->outputs.empty() ? std::string_view() : node->outputs[0],
                                        origin::token_in(node->doc_string).value_or(origin::CarriedToken{}).name}) {
      if (!name.starts_with('/')) continue;
      const ScopeInName found = reader.read(name);
      if (found.has_operator) paths.insert(found.path);
    }
  }
  std::set<std::string_view> called;
  for (const std::string_view path : paths) {
    const bool again = std::ranges::any_of(first_calls(path), [&](const auto& first) { return paths.contains(first); });
    const std::string prefix = module_of_path(path) + ".";
    const auto parameter = parameters.lower_bound(prefix);
    if (!again || (parameter != parameters.end() && parameter->starts_with(prefix))) called.insert(path);
  }
  return called;
}

OmittedContainers::OmittedContainers(const std::set<std::string>& with_parameters,
                                     const std::set<std::string_view>& name_paths) {
  for (std::string_view module : with_parameters) {
    for (; !module.empty(); module = module_around(module)) modules_[last_segment(module)].emplace(module);
  }
  for (std::string_view path : name_paths) {
    for (; !path.empty(); path = path.substr(0, path.rfind('/'))) named_.insert(module_of_path(path));
  }
}

std::optional<std::string> OmittedContainers::module_meant(const std::string& named) const {
  if (named.empty()) return named;
  if (const auto called_alike = modules_.find(last_segment(named)); called_alike != modules_.end()) {
    if (called_alike->second.contains(named)) return named;
    std::optional<std::string> meant;
    for (const std::string& module : called_alike->second) {
      if (!may_be(named, module)) continue;
      if (meant) return std::nullopt;
      meant = module;
    }
    if (meant) return meant;
  }
  const auto around = module_meant(std::string(module_around(named)));
  return around ? std::optional(joined_path(*around, last_segment(named))) : std::nullopt;
}

// Returns true if `module` is `named` with additional containers that no name mentions.
bool OmittedContainers::may_be(std::string_view named, const std::string& module) const {
  if (module.size() <= named.size() || named_.contains(module)) return false;
  const std::vector<std::string_view> parts = text::path_segments(named);
  auto part = parts.begin();
  for (const std::string_view segment : text::path_segments(module)) {
    if (part != parts.end() && segment == *part) {
      ++part;
    } else if (named_.contains(module.substr(0, static_cast<std::size_t>(segment.end() - module.data())))) {
      return false;
    }
  }
  return part == parts.end();
}

}  // namespace whence::match
