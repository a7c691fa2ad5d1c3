#include "recorder/script/dropped_writes.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <caffe2/serialize/inline_container.h>

#include "schema/operator_facts.h"

namespace whence::recorder::script {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Removes a call from the start of the text and returns its name: "copy_" of "torch.copy_(x)", which leaves "x)".
// Returns "" if the text does not start with a call.
std::string take_call(std::string_view& text) {
  constexpr std::string_view prefix = "torch.";
  if (!text.starts_with(prefix)) return "";
  const auto end = std::find_if_not(text.begin() + prefix.size(), text.end(), is_word);
  if (end == text.end() || *end != '(') return "";
  std::string name(text.begin() + prefix.size(), end);
  text.remove_prefix(static_cast<std::size_t>(end - text.begin()) + 1);
  return name;
}

// Returns the name at the start of a text, without the views around it: "CONSTANTS.c0" of "torch.slice(CONSTANTS.c0, 0,
// 1, 3)".
std::string viewed_name(std::string_view text) {
  std::string_view inner = text;
  for (std::string name;
       !(name = take_call(inner)).empty() && facts_of("aten::" + name).memory != ResultMemory::declared;) {
    text = inner;
  }
  return {text.begin(), std::find_if_not(text.begin(), text.end(), [](char c) { return is_word(c) || c == '.'; })};
}

// Counts writes to constants, such as torch.copy_(torch.slice(CONSTANTS.c0, 0, 1, 3), x), also if the view is in a
// variable. Skips lines before the first constant or such variable of a function.
std::ptrdiff_t writes_in(const std::string& code) {
  std::unordered_set<std::string> constants;  // variables that are views of constants
  const auto is_constant = [&](const std::string& name) {
    return name.starts_with("CONSTANTS.c") || constants.contains(name);
  };
  std::ptrdiff_t count = 0;
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("CONSTANTS.c") == std::string::npos && constants.empty()) continue;
    if (line.find(" def ") != std::string::npos) constants.clear();
    const std::size_t assigned = line.find(" = torch.");
    if (assigned != std::string::npos && is_constant(viewed_name(std::string_view(line).substr(assigned + 3)))) {
      constants.insert(line.substr(line.find_first_not_of(' '), assigned - line.find_first_not_of(' ')));
    }
    for (std::size_t at = line.find("torch."); at != std::string::npos; at = line.find("torch.", at + 1)) {
      std::string_view arguments = std::string_view(line).substr(at);
      const std::string name = take_call(arguments);
      if (is_in_place_name("aten::" + name) && is_constant(viewed_name(arguments)) &&
          !facts_of("aten::" + name).keeps_content)
        ++count;
    }
  }
  return count;
}

std::ptrdiff_t writes_in(const Program& program) {
  std::unordered_map<ValueId, ValueId> first_arguments;  // by result, the first argument of its operation
  std::ptrdiff_t count = 0;
  for (const Node* node : operations(program)) {
    const auto* first = node->arguments.empty() ? nullptr : node->arguments.front().value.as<ValueRef>();
    if (first == nullptr) continue;
    for (const ValueId output : node->outputs) first_arguments.emplace(output, first->id);
    if (!is_in_place_name(node->target) || facts_of(node->target).keeps_content) continue;
    ValueId id = first->id;
    for (auto before = first_arguments.find(id); before != first_arguments.end(); before = first_arguments.find(id))
      id = before->second;
    if (program.values[id].source == ValueSource::constant) ++count;
  }
  return count;
}

}  // namespace

std::optional<Diagnostic> dropped_writes(const std::string& path, const Program& program) {
  caffe2::serialize::PyTorchStreamReader zip(path);
  std::ptrdiff_t written = 0;
  for (const std::string& record : zip.getAllRecords()) {
    if (!record.starts_with("code/") || !record.ends_with(".py")) continue;
    const auto [data, size] = zip.getRecord(record);
    written += writes_in(std::string(static_cast<const char*>(data.get()), size));
  }
  if (written <= writes_in(program)) return std::nullopt;
  return Diagnostic{
      Code::state_not_kept,
      Severity::warning,
      "the model writes to a tensor that it holds and that is not a parameter or buffer; LibTorch drops the "
      "write when it loads the archive, so that later reads see the archive's value",
      {.file = path, .stage = "read"},
      "register the tensor as a buffer before tracing",
      1,
      {}};
}

}  // namespace whence::recorder::script
