// Runs every subcommand that changes a model's structure: functions, inline, extract.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/functions.h"

namespace whence::fuzz {
namespace {

// Returns the module of the last node with whence's key, or an empty string.
std::string module_of_last_node(std::string_view input) {
  constexpr std::string_view key = "pkg.whence.module\x12";
  const std::size_t at = input.rfind(key);
  if (at == std::string_view::npos || at + key.size() >= input.size()) return "";
  const std::size_t size = static_cast<unsigned char>(input[at + key.size()]);
  return std::string(input.substr(at + key.size() + 1, size));
}

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output.onnx"), back = scratch("back.onnx");
  const auto round_trip = [&](const FunctionChoice& choice) {
    make_functions(model, output, choice);
    inline_functions(output, back);
  };
  attempt_each(input,
               {
                   [&] { inline_functions(model, output, /*all=*/true); },
                   [&] { inline_functions(model, output); },
                   [&] { extract_module(model, output, {.module = module_of_last_node(input), .partial = true}); },
                   [&] { extract_module(model, output, {.module = ""}); },
                   [&] { round_trip({}); },
                   [&] { round_trip({.modules = {"**"}}); },
                   [&] { round_trip({.depth = 2}); },
               });
}

const Target target("model_functions", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
