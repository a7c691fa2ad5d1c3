#include "annotator/metadata/way.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/text/python_list.h"
#include "schema/json_text.h"

namespace whence::metadata {

namespace keys = origin::keys;
using onnx_file::find_property;

namespace {

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Returns the modules in whence's key, which is written for nodes without PyTorch's keys.
std::vector<CalledModule> modules_of_json(std::string_view text) {
  const auto names = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<CalledModule> call_path;
  for (const auto& name : names.is_array() ? names : nlohmann::json::array()) {
    if (!name.is_string()) return {};
    call_path.push_back({.path = name.get<std::string>()});
  }
  return call_path;
}

// Parses "scope: type/scope: type/operation: target"; the scope of the root is empty. Returns nothing for another
// format, since other tools use the key too.
PyTorchScopes scopes_of_namespace(std::string_view text) {
  constexpr std::string_view between = ": ";
  PyTorchScopes scopes;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('/'), text.size());
    const std::string_view entry = text.substr(0, end);
    const std::size_t middle = entry.find(between);
    if (middle == entry.npos) return {};
    scopes.modules.push_back(
        {.path = std::string(entry.substr(0, middle)), .type = std::string(entry.substr(middle + between.size()))});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (scopes.modules.size() < 2) return {};
  scopes.operation = std::move(scopes.modules.back().type);
  scopes.modules.pop_back();
  return scopes;
}

// Removes scopes that are not modules: PyTorch adds a root to captured graphs and a placeholder for unknown modules.
void drop_non_module_scopes(std::vector<CalledModule>& modules) {
  constexpr std::string_view captured_root = "_export_root", unknown = "_empty_nn_module_stack";
  std::erase_if(modules, [&](CalledModule& module) {
    if (module.path == captured_root || module.path.starts_with(unknown)) return true;
    if (module.path.starts_with(captured_root) && module.path[captured_root.size()] == '.') {
      module.path.erase(0, captured_root.size() + 1);
    }
    return false;
  });
}

PyTorchScopes all_scopes(const onnx_file::OnnxProperties& metadata) {
  const auto names = text::parse_python_list(find_property(metadata, keys::name_scopes).value_or(""));
  if (!names || names->size() < 2) return scopes_of_namespace(find_property(metadata, keys::name_space).value_or(""));
  const auto classes = text::parse_python_list(find_property(metadata, keys::class_hierarchy).value_or(""));
  const bool typed = classes && classes->size() == names->size();
  PyTorchScopes scopes;
  for (std::size_t i = 0; i + 1 < names->size(); ++i) {
    scopes.modules.push_back({.path = (*names)[i], .type = typed ? (*classes)[i] : std::string()});
  }
  scopes.operation = typed ? classes->back() : names->back();
  return scopes;
}

}  // namespace

PyTorchScopes pytorch_scopes(const onnx_file::OnnxProperties& metadata) {
  PyTorchScopes scopes = all_scopes(metadata);
  drop_non_module_scopes(scopes.modules);
  return scopes;
}

std::vector<CalledModule> stated_modules(const onnx_file::OnnxProperties& metadata) {
  const auto stated = find_property(metadata, keys::scopes);
  if (stated && !stated->empty()) return modules_of_json(*stated);
  return pytorch_scopes(metadata).modules;
}

// Ignores call numbers if their count differs: then they belong to another call path.
void set_calls(const onnx_file::OnnxProperties& metadata, std::vector<CalledModule>& call_path) {
  std::string_view rest = find_property(metadata, keys::calls).value_or("");
  if (rest.empty() || static_cast<std::size_t>(std::ranges::count(rest, '/')) + 1 != call_path.size()) {
    if (!call_path.empty()) call_path.back().call = number(find_property(metadata, keys::call).value_or(""));
    return;
  }
  for (CalledModule& module : call_path) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    module.call = number(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

std::string call_path_text(const std::vector<CalledModule>& call_path) {
  auto names = nlohmann::json::array();
  for (const CalledModule& module : call_path) names.push_back(module.path);
  return json_text(names);
}

std::string calls_text(const std::vector<CalledModule>& call_path) {
  std::string text;
  bool repeated = false;
  for (std::size_t i = 0; i < call_path.size(); ++i) {
    repeated |= i + 1 < call_path.size() && call_path[i].call > 0;
    text += (i == 0 ? "" : "/") + std::to_string(call_path[i].call);
  }
  return repeated ? text : std::string();
}

}  // namespace whence::metadata
