// Runs every subcommand that changes a model's structure: functions, inline, extract.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/functions.h"

namespace whence::fuzz {
namespace {

// Returns the module of the last node that has whence's key; empty if none has.
std::string some_module(std::string_view input) {
  constexpr std::string_view key = "pkg.whence.module\x12";
  const std::size_t at = input.rfind(key);
  if (at == std::string_view::npos || at + key.size() >= input.size()) return "";
  const std::size_t size = static_cast<unsigned char>(input[at + key.size()]);
  return std::string(input.substr(at + key.size() + 1, size));
}

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output.onnx"), back = scratch("back.onnx");
  const auto there_and_back = [&](const FunctionChoice& choice) {
    make_functions(model, output, choice);
    inline_functions(output, back);
  };
  attempt_each(input, {
                          [&] { inline_functions(model, output, /*all=*/true); },
                          [&] { inline_functions(model, output); },
                          [&] { extract_module(model, output, {.module = some_module(input), .partial = true}); },
                          [&] { extract_module(model, output, {.module = ""}); },
                          [&] { there_and_back({}); },
                          [&] { there_and_back({.modules = {"**"}}); },
                          [&] { there_and_back({.depth = 2}); },
                      });
}

const Target target("model_functions", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
