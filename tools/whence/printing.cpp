// Prints JSON objects and counts, and declares the options of commands that write models.
#include "tools/whence/printing.h"

#include <iostream>
#include <utility>

#include "annotator/text/words.h"
#include "schema/json_text.h"

namespace whence {

using Json = nlohmann::ordered_json;

void print_json(const Json& object) { std::cout << json_text(object, 2) << "\n"; }

void print_json(Json object, const Diagnostics& notes) {
  object["diagnostics"] = Json::parse(json_array(notes));
  print_json(object);
}

Json to_json(const FunctionsReport& report) {
  Json functions = Json::array(), refused = Json::array();
  for (const FunctionsReport::Function& each : report.functions) {
    functions.push_back({{"name", each.name}, {"calls", each.calls}, {"nodes", each.nodes}, {"modules", each.modules}});
  }
  for (const FunctionsReport::Refused& each : report.refused) {
    refused.push_back({{"module", each.module}, {"reason", each.reason}});
  }
  return {{"nodes_before", report.nodes_before},
          {"nodes_after", report.nodes_after},
          {"functions", functions},
          {"refused", refused}};
}

std::string describe(const FunctionsReport& report) {
  std::string text = std::to_string(report.functions.size()) +
                     (report.functions.size() == 1 ? " function: " : " functions: ") +
                     text::counted(report.nodes_before, "node") + " became " + std::to_string(report.nodes_after);
  if (!report.refused.empty()) text += "; " + std::to_string(report.refused.size()) + " modules were left as they are";
  return text;
}

std::string describe(const NodeCounts& nodes) {
  const std::pair<std::int64_t, const char*> counts[] = {{nodes.exact, "exact"},
                                                         {nodes.matched, "matched"},
                                                         {nodes.inferred, "inferred"},
                                                         {nodes.ancestor, "ancestor"},
                                                         {nodes.unattributed, "unattributed"}};
  std::string text;
  for (const auto& [count, word] : counts) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + word;
  }
  return text;
}

void declare_model_output(CommandLine& line, const std::string& help, Target target) {
  line.output("output,o", help, target);
  line.flag(
      "overwrite",
      "replace existing weight files whose content differs. Weights in separate files are copied to another folder "
      "under the output's name (out.onnx.data)");
}

void declare_copy_data(CommandLine& line) {
  line.flag("copy-data",
            "copy weight files under the output's name, even in the model's folder, where the output otherwise "
            "refers to the model's own files");
}

WeightFiles weight_files(const CommandLine& line) {
  return {.overwrite = line.has("overwrite"), .copy_data = line.has("copy-data")};
}

}  // namespace whence
