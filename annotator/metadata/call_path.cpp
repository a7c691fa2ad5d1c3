#include "annotator/metadata/call_path.h"

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

// Replaces names that are relative to the enclosing module with qualified names. A scope without a name is its module
// again, unless it is the root.
std::vector<CalledModule> with_qualified_names(std::vector<CalledModule> relative) {
  std::vector<CalledModule> modules;
  for (CalledModule& each : relative) {
    if (each.path.empty() && !modules.empty()) continue;
    if (!modules.empty() && !modules.back().path.empty()) each.path.insert(0, modules.back().path + ".");
    modules.push_back(std::move(each));
  }
  return modules;
}

// Parses "scope: type/scope: type/operation: target", PyTorch's form, in which types have their Python module; the
// scope of the root is empty. Parses also onnxscript's form, with class names, relative scopes and no operation.
// Returns nothing for another format: other tools use the key too.
ExporterScopes scopes_of_namespace(std::string_view text) {
  constexpr std::string_view between = ": ";
  ExporterScopes scopes;
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
  const auto is_qualified = [](const CalledModule& each) { return each.type.find('.') != std::string::npos; };
  if (std::ranges::none_of(scopes.modules, is_qualified)) {
    return {.modules = with_qualified_names(std::move(scopes.modules))};
  }
  scopes.operation = std::move(scopes.modules.back().type);
  scopes.modules.pop_back();
  return scopes;
}

// Reads a list of names and, if it has as many entries, the list of their types. Empty without names.
std::vector<CalledModule> read_lists(const onnx_file::OnnxProperties& metadata, std::string_view names_key,
                                     std::string_view types_key) {
  const auto names = text::parse_python_list(find_property(metadata, names_key).value_or(""));
  const auto types = text::parse_python_list(find_property(metadata, types_key).value_or(""));
  const bool typed = names && types && types->size() == names->size();
  std::vector<CalledModule> scopes;
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    scopes.push_back({.path = (*names)[i], .type = typed ? (*types)[i] : std::string()});
  }
  return scopes;
}

// Removes scopes that are not modules: PyTorch adds a root to captured graphs and a placeholder for unknown modules.
void drop_non_module_scopes(std::vector<CalledModule>& modules) {
  using keys::captured_root;
  std::erase_if(modules, [&](CalledModule& module) {
    if (module.path == captured_root || module.path.starts_with(keys::no_module_stack)) return true;
    if (module.path.starts_with(captured_root) && module.path[captured_root.size()] == '.') {
      module.path.erase(0, captured_root.size() + 1);
    }
    return false;
  });
}

ExporterScopes all_scopes(const onnx_file::OnnxProperties& metadata) {
  std::vector<CalledModule> by_pytorch = read_lists(metadata, keys::name_scopes, keys::class_hierarchy);
  if (by_pytorch.size() > 1) {
    CalledModule operation = std::move(by_pytorch.back());
    by_pytorch.pop_back();
    return {std::move(by_pytorch), operation.type.empty() ? operation.path : operation.type};
  }
  std::vector<CalledModule> by_onnxscript =
      read_lists(metadata, keys::onnxscript_name_scopes, keys::onnxscript_class_hierarchy);
  if (!by_onnxscript.empty()) return {.modules = with_qualified_names(std::move(by_onnxscript))};
  return scopes_of_namespace(find_property(metadata, keys::name_space).value_or(""));
}

}  // namespace

ExporterScopes exporter_scopes(const onnx_file::OnnxProperties& metadata) {
  ExporterScopes scopes = all_scopes(metadata);
  drop_non_module_scopes(scopes.modules);
  return scopes;
}

ExporterScopes exporter_scopes(const onnx_file::OnnxNode& node) { return exporter_scopes(node, node.metadata.list()); }

ExporterScopes exporter_scopes(const onnx_file::OnnxNode& node, const onnx_file::OnnxProperties& metadata) {
  ExporterScopes scopes = exporter_scopes(metadata);
  if (node.captured == nullptr || scopes.modules.empty()) return scopes;
  scopes.certain = node.captured->certain;
  const bool same_classes = scopes.certain && scopes.modules.size() == node.captured->paths.size();
  if (!same_classes) scopes.modules.assign(node.captured->paths.size(), {});
  for (std::size_t i = 0; i < scopes.modules.size(); ++i) scopes.modules[i].path = node.captured->paths[i];
  return scopes;
}

std::vector<CalledModule> stated_modules(const onnx_file::OnnxNode& node) {
  const auto stated = find_property(node.metadata, keys::scopes);
  if (stated && !stated->empty()) return modules_of_json(*stated);
  return exporter_scopes(node).modules;
}

// Ignores call numbers if their count differs: then they belong to another call path.
void set_call_numbers(const onnx_file::OnnxProperties& metadata, std::vector<CalledModule>& call_path) {
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
