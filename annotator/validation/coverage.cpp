#include "annotator/validation/coverage.h"

#include <algorithm>
#include <map>
#include <set>

namespace whence::validation {

namespace {

// Orders qualified names depth first: "a", "a.b", "a-b" rather than by the bytes of '.'.
struct BySegments {
  bool operator()(const std::string& a, const std::string& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char left, char right) {
      const auto rank = [](char c) { return c == '.' ? 0 : static_cast<int>(static_cast<unsigned char>(c)) + 1; };
      return rank(left) < rank(right);
    });
  }
};

// A module and all above it.
void add_enclosing(std::string path, std::set<std::string>& into) {
  while (into.insert(path).second && !path.empty()) {
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
}

}  // namespace

Coverage coverage_of(const CheckContext& context) {
  Coverage coverage;
  std::map<std::string, origin::Counts, BySegments> modules;
  std::map<std::string, origin::Counts> operators;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    const metadata::Attribution attribution = metadata::attribution_of(*node, context.recorded);
    const std::string type =
        (node->domain.empty() ? "" : std::string(node->domain) + "::") + std::string(node->op_type);
    coverage.all.add(attribution.confidence);
    operators[type].add(attribution.confidence);
    if (!attribution.attributed()) coverage.unattributed.emplace_back(shown_node(*node), type);
    std::set<std::string> enclosing;
    for (const std::string& module : attribution.modules) add_enclosing(module, enclosing);
    for (const std::string& module : enclosing) modules[module].add(attribution.confidence);
  }
  coverage.modules.assign(modules.begin(), modules.end());
  coverage.operators.assign(operators.begin(), operators.end());
  return coverage;
}

}  // namespace whence::validation
