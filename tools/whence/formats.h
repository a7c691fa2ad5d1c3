// Reports in several formats: `--format` and `--output` of a subcommand may both be repeated. The first format goes to
// the first output, and so on; one additional format goes to standard output.
//
//   whence validate m.onnx --format sarif -o m.sarif --format junit -o m.xml --format text
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/whence/cli.h"

namespace whence {

struct ReportForm {
  std::string format;
  std::string file;  // empty: standard output
};

// Declares --output. The caller declares --format, as a repeated option.
void declare_report_outputs(CommandLine& line);

// Returns the formats with their files. Without --format, the format is `otherwise`. Throws Error(usage): an unknown
// format, several formats for standard output, more outputs than formats.
std::vector<ReportForm> report_forms(const CommandLine& line, const std::vector<std::string>& formats,
                                     const std::string& otherwise);

// Writes all files, or none of them, then standard output. `text` makes the text of one report.
void write_report_forms(const std::vector<ReportForm>& forms,
                        const std::function<std::string(const ReportForm&)>& text);

}  // namespace whence
