#include "annotator/derivation/name_fit.h"

#include <algorithm>

#include "annotator/metadata/attribution.h"

namespace whence::derivation {
namespace {

// Weights of the evidence. The name of the tensor is the strongest: tools add endings to the parameter's.
constexpr int same_name = 16, name_within = 8, same_module = 4, neighbour = 2, within_path = 1;

// Turns a node's path into dots: "/encoder/layer.0/MatMul" -> ".encoder.layer.0.MatMul".
std::string dotted(std::string_view path) {
  std::string text(path);
  std::ranges::replace(text, '/', '.');
  return text;
}

bool is_segment_end(char c) { return c == '.' || c == '_' || c == ':' || c == '/' || c == '\0'; }

// Returns true if `name` contains `part` as complete segments.
bool contains_segments(std::string_view name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const char before = at == 0 ? '\0' : name[at - 1];
    const char after = at + part.size() < name.size() ? name[at + part.size()] : '\0';
    if (is_segment_end(before) && is_segment_end(after)) return true;
  }
  return false;
}

}  // namespace

std::string_view module_of_parameter(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : parameter.substr(0, dot);
}

TensorNames::TensorNames(const FileTensor& tensor) : name_(tensor.name) {
  for (const Use& use : tensor.uses) {
    const metadata::Attribution origin = metadata::attribution_of(*use.node, nullptr);
    readers_.insert(origin.modules.begin(), origin.modules.end());
    if (origin.modules.empty() && !use.node->name.empty()) readers_.insert(dotted(use.node->name));
  }
}

int TensorNames::fit(std::string_view parameter) const {
  int fit = 0;
  if (name_ == parameter) {
    fit += same_name;
  } else if (contains_segments(name_, parameter)) {
    fit += name_within;
  }
  const std::string_view module = module_of_parameter(parameter);
  if (module.empty()) return fit;
  if (readers_.contains(module)) fit += same_module;
  if (neighbours_.contains(module)) fit += neighbour;
  if (std::ranges::any_of(readers_, [&](const std::string& reader) { return contains_segments(reader, module); }))
    fit += within_path;
  return fit;
}

}  // namespace whence::derivation
