// Every subcommand that writes a model with another structure: functions, inline, extract.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/functions.h"

namespace whence::fuzz {
namespace {

// The module that the last node with one belongs to, by whence's key; empty for none.
std::string some_module(std::string_view input) {
  constexpr std::string_view key = "pkg.whence.module\x12";
  const std::size_t at = input.rfind(key);
  if (at == std::string_view::npos || at + key.size() >= input.size()) return "";
  const std::size_t size = static_cast<unsigned char>(input[at + key.size()]);
  return std::string(input.substr(at + key.size() + 1, size));
}

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output.onnx"), back = scratch("back.onnx");
  attempt([&] { inline_functions(model, output, /*all=*/true); });
  attempt([&] { inline_functions(model, output); });
  attempt([&] { extract_module(model, output, {.module = some_module(input), .partial = true}); });
  attempt([&] { extract_module(model, output, {.module = ""}); });
  for (const FunctionChoice& choice :
       {FunctionChoice{}, FunctionChoice{.modules = {"**"}}, FunctionChoice{.depth = 2}}) {
    attempt([&] {
      make_functions(model, output, choice);
      inline_functions(output, back);
    });
  }
}

const Target target("model_functions", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
