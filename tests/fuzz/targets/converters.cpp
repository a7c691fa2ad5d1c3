// Reads an ONNX file with the user's converters, and exports with it.
#include "annotator/write/user_functions.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/export.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string path = file_of("converters.onnx", input);
  const auto read_at = [&](int opset) {
    const auto functions = write::UserFunctions::read(path, opset);
    require(!functions->operators().empty(), "a file without converters was accepted");
  };
  attempt_each(
      input,
      {
          [&] { read_at(13); },
          [&] { read_at(20); },
          [&] { read_at(28); },
          // A function with the name of an operator replaces whence's converter.
          [&] { export_archive(valid_model().archive, scratch("output.onnx"), {.opset = 21, .converters = path}); },
      });
}

const Target target("converters", run, 4096, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
