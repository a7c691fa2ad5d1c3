// Writes the report of a model: a page for a browser, or Markdown for a pull request.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::app {

enum class ReportFormat : std::uint8_t { html, markdown };
struct ReportOutput {
  std::string file;
  ReportFormat format = ReportFormat::html;
};

struct ReportOptions {
  std::optional<std::string> sidecar = {};
  std::map<std::string, std::int64_t> sizes = {};  // numbers for dynamic axes, so that operations can be counted
};

struct ReportSummary {
  std::int64_t nodes = 0, covered = 0;
  std::size_t modules = 0, findings = 0;
  Diagnostics notes;
};

// Writes all outputs or none. Throws Error as report::make_report() and read_sidecar() do, and cannot_write.
ReportSummary write_report(const std::string& model, const std::vector<ReportOutput>& outputs,
                           const ReportOptions& options);

}  // namespace whence::app
