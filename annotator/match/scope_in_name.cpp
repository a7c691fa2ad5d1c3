#include "annotator/match/scope_in_name.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include <re2/re2.h>

#include "annotator/match/file_structure.h"
#include "annotator/match/operator_name.h"
#include "annotator/origin/node_name.h"

namespace whence::match {

namespace {

// Removes the part that NNCF adds for a quantiser at an operation: the module's name (empty for the root), the
// function, and the call with its port, "/layers.0/up" + "/up/linear/0__1.0". At an input of the model it adds one
// segment, "/x__0.0".
std::string_view without_hook(std::string_view path) {
  static const re2::RE2 at_call(R"((.*)/[^/]*/[^/]*/\d+__\d+\.\d+)"), at_input(R"((.*)/[^/]*\D__\d+\.\d+)");
  const re2::StringPiece text(path.data(), path.size());
  re2::StringPiece module_path;
  if (!re2::RE2::FullMatch(text, at_call, &module_path) && !re2::RE2::FullMatch(text, at_input, &module_path)) {
    return path;
  }
  return {module_path.data(), module_path.size()};
}

}  // namespace

std::string_view number_ending(std::string_view segment) {
  const std::size_t digits = segment.find_last_not_of("0123456789");
  const bool numbered = digits != std::string_view::npos && digits > 0 && digits + 1 < segment.size();
  return numbered && segment[digits] == '_' ? segment.substr(digits) : std::string_view();
}

std::vector<std::string> first_calls(std::string_view path) {
  constexpr std::size_t max_numbers = 6;  // in one path
  std::vector<std::string_view> numbers;  // views into `path`, the last one first
  for (std::size_t end = path.size(); end != std::string_view::npos && end > 0 && numbers.size() < max_numbers;) {
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    if (const auto number = number_ending(path.substr(begin, end - begin)); !number.empty()) numbers.push_back(number);
    end = slash;
  }
  std::vector<std::uint32_t> choices;
  for (std::uint32_t choice = 1; choice < 1U << numbers.size(); ++choice) choices.push_back(choice);
  std::ranges::stable_sort(choices, {}, [](std::uint32_t choice) { return std::popcount(choice); });
  std::vector<std::string> paths;
  for (const std::uint32_t choice : choices) {
    std::string& changed = paths.emplace_back(path);
    for (std::size_t i = 0; i < numbers.size(); ++i) {  // the earlier numbers keep their offsets
      if ((choice >> i & 1U) != 0) {
        changed.erase(static_cast<std::size_t>(numbers[i].data() - path.data()), numbers[i].size());
      }
    }
  }
  return paths;
}

ScopeReader::ScopeReader(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) used_.insert(node->op_type);
}

// Accepts the operator with and without suffixes that distinguish nodes and values: "Slice", "Slice_5", "Add_output_0",
// "MatMul_quant".
bool ScopeReader::names_operator(std::string_view segment) const {
  const std::string_view stem = segment.substr(0, segment.find('_'));
  if (stem.empty()) return used_.contains(segment);
  return used_.contains(stem) || used_.contains(segment) || is_onnx_operator(stem);
}

// Uses the last segment that is an operator: a module may have the name of an operator ("/Conv/Conv"), but tools do not
// append one.
ScopeInName ScopeReader::read(std::string_view name) const {
  std::string_view rest = name;
  while (true) {
    const std::size_t slash = rest.rfind('/');
    if (slash == std::string_view::npos) break;
    if (names_operator(rest.substr(slash + 1))) {
      const origin::NamePath found = origin::path_in_name(rest);
      return {without_hook(found.path), found.below, rest.size() != name.size(), true};
    }
    rest = rest.substr(0, slash);
  }
  const origin::NamePath found = origin::path_in_name(name);
  return {without_hook(found.path), found.below, false, false};
}

}  // namespace whence::match
