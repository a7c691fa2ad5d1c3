#include "annotator/report/report.h"

#include <algorithm>

#include "annotator/functions/flat_summary.h"
#include "annotator/view/operation_count.h"
#include "schema/freed_memory.h"

namespace whence::report {

namespace {

std::vector<ModuleFigures> figures_of(const Report& report) {
  const view::ModuleTree& tree = report.graph.tree;
  std::vector<ModuleFigures> figures(tree.rows.size());
  std::map<std::string_view, const origin::Counts*> coverage;
  for (const auto& [path, counts] : report.validation.coverage.modules) coverage.emplace(path, &counts);
  for (std::size_t row = 0; row < figures.size(); ++row) {
    if (const auto found = coverage.find(tree.rows[row].path); found != coverage.end()) {
      figures[row].coverage = *found->second;
    }
  }
  for (std::size_t i = 0; i < report.graph.nodes.size(); ++i) {
    const bool unsized = view::lacks_sizes(*report.graph.nodes[i].node, report.shapes.values);
    for (std::optional<std::size_t> at = report.graph.nodes[i].row; at; at = tree.rows[*at].parent) {
      // A file may state any sizes, so the sum may overflow.
      if (!report.operations[i] ||
          __builtin_add_overflow(figures[*at].operations, *report.operations[i], &figures[*at].operations)) {
        ++figures[*at].uncounted;
        figures[*at].unsized += unsized ? 1 : 0;
      }
    }
  }
  return figures;
}

}  // namespace

Result<Report> make_report(const std::string& path, const Program* program,
                           const std::map<std::string, std::int64_t>& sizes) {
  return guarded([&] {
    Report report;
    report.file = base_name(path);
    // The steps with the highest peak memory come first.
    report.shapes = value_of(functions::value_shapes(path, sizes));
    report.validation = value_of(validation::validate_file(path, program, {}));
    release_freed_memory();
    report.model = value_of(functions::read_flat_summary(path));
    report.graph = view::node_graph_of(report.model, program);
    for (const view::PlacedNode& placed : report.graph.nodes) {
      report.operations.push_back(view::count_operations(*placed.node, report.shapes.values));
    }
    report.figures = figures_of(report);
    return report;
  });
}

}  // namespace whence::report
