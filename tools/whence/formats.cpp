// Pairs --format with --output and writes the reports.
#include "tools/whence/formats.h"

#include <algorithm>
#include <iostream>

#include "schema/files/output_files.h"

namespace whence {
namespace {

Error usage_error(const std::string& message, const std::string& remedy) {
  return Error(Code::usage, message, remedy, Place{.stage = "command line"});
}

}  // namespace

void declare_report_outputs(CommandLine& line) {
  line.outputs("output,o", "the file to write, one for each --format in order; standard output by default");
}

std::vector<ReportForm> report_forms(const CommandLine& line, const std::vector<std::string>& formats,
                                     const std::string& otherwise) {
  std::vector<std::string> chosen = line.list("format");
  if (chosen.empty()) chosen.push_back(otherwise);
  const std::vector<std::string> outputs = line.list("output");
  if (outputs.size() > chosen.size()) {
    throw usage_error("--output was passed " + std::to_string(outputs.size()) + " times, --format " +
                          std::to_string(line.list("format").size()) + " times",
                      "pass a --format for each --output");
  }
  if (chosen.size() > outputs.size() + 1) {
    throw usage_error("several formats would go to standard output", "pass an --output for all but one --format");
  }
  std::vector<ReportForm> forms;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    forms.push_back({one_of("format", chosen[i], formats), i < outputs.size() ? outputs[i] : ""});
  }
  return forms;
}

void write_report_forms(const std::vector<ReportForm>& forms,
                        const std::function<std::string(const ReportForm&)>& text) {
  OutputFiles files;
  std::string shown;
  for (const ReportForm& form : forms) {
    form.file.empty() ? void(shown = text(form)) : files.add(form.file).write(text(form));
  }
  files.commit();
  std::cout << shown;
}

}  // namespace whence
