// The report of a model as a file: a page for a browser, or Markdown for a pull request.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "whence/diagnostics.h"

namespace whence::app {

struct ReportOptions {
  enum class Format : std::uint8_t { html, markdown };

  Format format = Format::html;
  std::optional<std::string> sidecar = {};
  std::map<std::string, std::int64_t> sizes = {};  // numbers for dynamic axes, so that operations can be counted
};

struct ReportSummary {
  std::int64_t nodes = 0, covered = 0;
  std::size_t modules = 0, findings = 0;
  Diagnostics notes;
};

// Writes `output` as a whole, or not at all. Throws Error: those of report::make_report and read_sidecar, cannot_write.
ReportSummary write_report(const std::string& model, const std::string& output, const ReportOptions& options);

}  // namespace whence::app
