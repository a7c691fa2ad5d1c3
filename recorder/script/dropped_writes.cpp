#include "recorder/script/dropped_writes.h"

#include <regex>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <caffe2/serialize/inline_container.h>

#include "schema/operator_facts.h"

namespace whence::recorder::script {
namespace {

// Operators whose result shares its argument's memory, as archives write them down: "(?:alias|detach|...)".
std::string view_names() {
  std::string names;
  for (const OperatorFacts& row : all_operator_facts()) {
    if (row.memory == ResultMemory::declared) continue;
    names += (names.empty() ? "(?:" : "|") + std::string(row.name.substr(row.name.find("::") + 2));
  }
  return names + ")";
}

// torch.copy_(torch.slice(CONSTANTS.c0, 0, 1, 3), x), or with the view as a variable of its own. Only lines that
// mention a constant or such a variable are looked at.
std::ptrdiff_t writes_in(const std::string& code) {
  const std::string of_constant = "(?:torch\\." + view_names() + "\\()*(CONSTANTS\\.c\\d+|_\\d+)\\b";
  static const std::regex write("torch\\.(\\w*[a-z0-9]_)\\(" + of_constant);
  static const std::regex view("^\\s*(\\w+) = (?=torch\\.)" + of_constant);
  std::unordered_set<std::string> constants;  // variables that are views of constants
  const auto is_constant = [&](const std::string& name) { return name.front() != '_' || constants.contains(name); };
  std::ptrdiff_t count = 0;
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("CONSTANTS.c") == std::string::npos && constants.empty()) continue;
    if (line.find(" def ") != std::string::npos) constants.clear();
    std::smatch found;
    if (std::regex_search(line, found, view) && is_constant(found[2])) constants.insert(found[1]);
    if (std::regex_search(line, found, write) && is_constant(found[2]) &&
        !facts_of("aten::" + found[1].str()).keeps_content)
      ++count;
  }
  return count;
}

std::ptrdiff_t writes_in(const Program& program) {
  std::unordered_map<ValueId, ValueId> made_of;  // results, and the first argument of what made them
  std::ptrdiff_t count = 0;
  for (const Node* node : operations(program)) {
    const auto* first = node->arguments.empty() ? nullptr : node->arguments.front().value.as<ValueRef>();
    if (first == nullptr) continue;
    for (const ValueId output : node->outputs) made_of.emplace(output, first->id);
    if (!is_in_place_name(node->target) || facts_of(node->target).keeps_content) continue;
    ValueId id = first->id;
    for (auto before = made_of.find(id); before != made_of.end(); before = made_of.find(id)) id = before->second;
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
