// Report: all that is known of one ONNX file, to be looked at: as one HTML page that opens from disk without network,
// and as Markdown for pull requests. It puts together what show, explain and validate tell, and judges nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/validation/validate.h"
#include "annotator/view/node_graph.h"

namespace whence::report {

// The figures of a module and all below it.
struct ModuleFigures {
  origin::Counts coverage;
  std::int64_t operations = 0;  // floating-point operations of the nodes where they are known (operation_count.h)
  std::int64_t uncounted = 0;   // nodes where they are not
  std::int64_t unsized = 0;     // uncounted nodes that only lack sizes, or hold a body with such nodes
};

struct Report {
  std::string file;  // base name
  onnx_file::OnnxSummary model;
  view::NodeGraph graph;
  functions::FileShapes shapes;
  validation::Validation validation;
  std::vector<std::optional<std::int64_t>> operations;  // by node
  std::vector<ModuleFigures> figures;                   // by row of the tree
};

// In place of a number of operations, where a part that was counted would pass for the whole.
inline std::string_view unsized_operations(const Report& report) {
  return report.shapes.open.empty() ? "unknown" : "unknown: give --size";
}

// `program` may be null and must outlive the report. `sizes`: numbers for dynamic sizes ("all" for every one), without
// which the operations of a model with such cannot be counted. Errors: those of read_onnx_summary, validate_file and
// value_shapes.
Result<Report> make_report(const std::string& path, const Program* program,
                           const std::map<std::string, std::int64_t>& sizes);

// Self-contained, without network: text of the file is data in it, and the page's policy runs no script but its own.
void write_html(const Report& report, AtomicFile& to);
std::string to_markdown(const Report& report);

// The data of the page: findings and what it says once, as JSON; modules, nodes and edges, packed; and apart, because
// it is large and rarely asked for, the evidence of each node. The form is the page's own, and changes with it.
struct PageData {
  std::string tables;  // JSON
  std::string packed;  // elements
};
PageData page_data(const Report& report);
void write_page_evidence(const Report& report, AtomicFile& to);

}  // namespace whence::report
