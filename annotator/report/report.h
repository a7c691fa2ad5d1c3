// Report: a report on one ONNX file, as an HTML page that opens from disk without network and as Markdown for pull
// requests. It collects the results of show, explain and validate, without checks of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/report/page_parts.h"
#include "annotator/validation/validate.h"
#include "annotator/view/node_graph.h"

namespace whence::report {

// The figures of a module and all below it.
struct ModuleFigures {
  origin::Counts coverage;
  std::int64_t operations = 0;  // known floating-point operations of the nodes (operation_count.h)
  std::int64_t uncounted = 0;   // nodes with an unknown number of operations
  std::int64_t unsized = 0;     // uncounted nodes that only lack sizes, or have a body with one
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

// Returns the text to show instead of a partial count, which could be mistaken for the total.
inline std::string_view unsized_operations(const Report& report) {
  return report.shapes.open.empty() ? "unknown" : "unknown: pass --size";
}

// Makes the report. `program` may be null and must outlive the report. `sizes` gives numbers for dynamic sizes ("all"
// for every size), which are needed to count operations. Errors: as read_onnx_summary(), validate_file() and
// value_shapes().
Result<Report> make_report(const std::string& path, const Program* program,
                           const std::map<std::string, std::int64_t>& sizes);

// Writes a self-contained page without network. Text from the file is data, and the page's policy runs only its own
// script.
void write_html(const Report& report, AtomicFile& to);
std::string to_markdown(const Report& report);

// Findings and single values as JSON; modules, nodes and edges, packed. The evidence of each node is written
// separately, because it is large and rarely read.
PageData page_data(const Report& report);
void write_page_evidence(const Report& report, AtomicFile& to);

}  // namespace whence::report
