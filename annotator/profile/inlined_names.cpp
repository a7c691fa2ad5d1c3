#include "annotator/profile/inlined_names.h"

#include <charconv>
#include <set>
#include <utility>

#include "annotator/onnx_file/called_functions.h"

namespace whence::profile {

using onnx_file::OnnxNode;

namespace {

constexpr std::string_view mark = "_inlfunc_", token = "token_";
constexpr std::size_t max_calls = 1'000'000;  // ends the loop for functions that call each other in a cycle

}  // namespace

InlinedNames::InlinedNames(const onnx_file::OnnxSummary& model, const RuntimeProfile& profile) {
  const onnx_file::CalledFunctions functions(model.functions);
  std::vector<std::pair<const OnnxNode*, std::string>> round, next;
  for (const OnnxNode& node : model.graph.nodes) round.emplace_back(&node, std::string(node.name));
  for (std::size_t calls = 0; !round.empty() && calls < max_calls; round = std::exchange(next, {})) {
    for (const auto& [node, name] : round) {
      const onnx_file::OnnxFunction* function = functions.called_by(*node);
      if (function == nullptr) continue;
      ++calls;
      calls_[std::string(node->op_type)].push_back(name);
      for (const OnnxNode& inner : function->nodes) {
        next.emplace_back(&inner, name + "/" + std::string(inner.name));
      }
    }
  }
  std::map<std::string, std::set<long>> numbers;
  Inlined inlined;
  for (const Layer& layer : profile.layers) {
    if (split(layer.name, inlined)) numbers[inlined.function].insert(inlined.number);
  }
  for (const auto& [function, found] : numbers) {
    const std::vector<std::string>& calls = calls_[function];
    if (calls.size() != found.size()) continue;
    auto call = calls.begin();
    for (const long number : found) by_number_[function][number] = *call++;
  }
}

bool InlinedNames::split(std::string_view name, Inlined& into) const {
  if (!name.starts_with(mark)) return false;
  name.remove_prefix(mark.size());
  std::size_t longest = 0;  // "BertLayer_first_..." is not a call of "BertLayer"
  for (const auto& [function, calls] : calls_) {
    const bool fits = name.starts_with(function) && name.substr(function.size()).starts_with("_");
    if (fits && function.size() > longest) longest = function.size(), into.function = function;
  }
  if (longest == 0) return false;
  name.remove_prefix(longest + 1);
  into.number = -1;
  if (name.starts_with(token)) {
    const char* const digits = name.data() + token.size();
    const auto [end, error] = std::from_chars(digits, name.data() + name.size(), into.number);
    if (error != std::errc() || end == name.data() + name.size() || *end != '_') return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()) + 1);
  }
  into.rest = name;
  return true;
}

std::string InlinedNames::name_by_whence(const std::string& name) const {
  Inlined inlined;
  if (!split(name, inlined)) return name;
  const auto function = by_number_.find(inlined.function);
  if (function == by_number_.end()) return name;
  const auto call = function->second.find(inlined.number);
  return call == function->second.end() ? name : call->second + "/" + std::string(inlined.rest);
}

}  // namespace whence::profile
