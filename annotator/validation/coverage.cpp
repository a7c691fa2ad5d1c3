#include "annotator/validation/coverage.h"

#include <map>

#include "annotator/origin/module_tree.h"

namespace whence::validation {

namespace {

struct CoveredModule : origin::ModulePlace {
  origin::Counts counts;
};

}  // namespace

Coverage coverage_of(const CheckContext& context) {
  Coverage coverage;
  origin::ModuleTree<CoveredModule> modules;
  std::map<std::string, origin::Counts> operators;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    const metadata::Attribution attribution = metadata::attribution_of(*node, context.recorded);
    const std::string type =
        (node->domain.empty() ? "" : std::string(node->domain) + "::") + std::string(node->op_type);
    coverage.all.add(attribution.confidence);
    if (attribution.by_exporter) ++coverage.by_exporter;
    operators[type].add(attribution.confidence);
    if (!attribution.attributed()) coverage.unattributed.emplace_back(shown_node(*node), type);
    for (const std::size_t row : modules.around(attribution.modules)) {
      modules.rows[row].counts.add(attribution.confidence);
    }
  }
  modules.order_depth_first(origin::Siblings::by_name);
  for (CoveredModule& row : modules.rows) {
    if (row.counts.total() > 0) coverage.modules.emplace_back(std::move(row.path), row.counts);
  }
  coverage.operators.assign(operators.begin(), operators.end());
  return coverage;
}

}  // namespace whence::validation
