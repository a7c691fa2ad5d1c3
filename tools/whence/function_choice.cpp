#include "tools/whence/function_choice.h"

#include <charconv>

namespace whence {

namespace {

int parse_depth(const std::string& text) {
  int depth = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), depth);
  if (failure == std::errc() && end == text.data() + text.size() && depth >= 1) return depth;
  throw Error(Code::usage, "--functions depth=" + text + " is not a number of levels", "give 1 or more",
              {.stage = "command line"});
}

}  // namespace

void declare_functions(CommandLine& line) {
  line.option("functions", "CHOICE",
              "modules become ONNX functions, one for each unique block: auto, types=A,B, modules=GLOB,GLOB or "
              "depth=N (`whence functions` says more)");
}

std::optional<OutlineOptions> parse_functions(const CommandLine& line) {
  if (!line.has("functions")) return std::nullopt;
  const std::string choice = line.text("functions");
  OutlineOptions options;
  if (choice == "auto") return options;
  if (choice == "structure") {
    throw Error(Code::usage, "--functions structure was removed", annotate_first, {.stage = "command line"});
  }
  const std::size_t equals = choice.find('=');
  const std::string kind = choice.substr(0, equals),
                    rest = equals == std::string::npos ? "" : choice.substr(equals + 1);
  if (kind == "types" && !rest.empty()) {
    options.types = split(rest, ',');
  } else if (kind == "modules" && !rest.empty()) {
    options.modules = split(rest, ',');
  } else if (kind == "depth") {
    options.depth = parse_depth(rest);
  } else {
    throw Error(
        Code::usage, "--functions '" + choice + "' is not a choice of modules",
        "auto, types=BertLayer, modules='encoder.layer.*' or depth=2; a file with converters of your own goes to "
        "`whence export --converters`",
        {.stage = "command line"});
  }
  return options;
}

nlohmann::ordered_json to_json(const OutlineReport& report) {
  nlohmann::ordered_json functions = nlohmann::ordered_json::array(), refused = nlohmann::ordered_json::array();
  for (const OutlineReport::Function& each : report.functions) {
    functions.push_back({{"name", each.name}, {"calls", each.calls}, {"nodes", each.nodes}, {"modules", each.modules}});
  }
  for (const OutlineReport::Refused& each : report.refused) {
    refused.push_back({{"module", each.module}, {"reason", each.reason}});
  }
  return {{"nodes_before", report.nodes_before},
          {"nodes_after", report.nodes_after},
          {"functions", functions},
          {"refused", refused}};
}

std::string describe(const OutlineReport& report) {
  std::string text = std::to_string(report.functions.size()) +
                     (report.functions.size() == 1 ? " function: " : " functions: ") +
                     std::to_string(report.nodes_before) + " nodes became " + std::to_string(report.nodes_after);
  if (!report.refused.empty()) text += "; " + std::to_string(report.refused.size()) + " modules were left as they are";
  return text;
}

}  // namespace whence
