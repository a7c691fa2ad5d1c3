#include "annotator/app/write_report.h"

#include <optional>

#include "annotator/app/fitting_sidecar.h"
#include "annotator/report/report.h"
#include "schema/files/output_files.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

ReportSummary write_report(const std::string& model, const std::vector<ReportOutput>& outputs,
                           const ReportOptions& options) {
  ReportSummary summary;
  const std::optional<Sidecar> sidecar = read_sidecar_if_given(options.sidecar, summary.notes);
  const report::Report report = unwrap(report::make_report(model, program_of(sidecar), options.sizes), summary.notes);
  metadata::note_origins(report.graph.tree.by_exporter, report.graph.tree.count, model, summary.notes);
  OutputFiles files;
  for (const ReportOutput& output : outputs) {
    AtomicFile& file = files.add(output.file);
    output.format == ReportFormat::html ? report::write_html(report, file) : file.write(report::to_markdown(report));
  }
  files.commit();
  summary.nodes = report.validation.nodes;
  summary.covered = report.validation.coverage.all.covered();
  summary.modules = report.graph.tree.rows.size();
  for (const validation::Finding& finding : report.validation.findings) summary.findings += finding.items.size();
  return summary;
}

}  // namespace whence::app
