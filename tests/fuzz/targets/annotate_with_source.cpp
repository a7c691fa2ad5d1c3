// Annotates a hostile file with the sidecar of a valid model and from an annotated valid file, and a valid file from a
// hostile one.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output.onnx");
  const ValidModel& valid = valid_model();
  attempt_each(input, {
                          [&] { annotate(model, output, {.sidecar = valid.sidecar, .allow_different_weights = true}); },
                          [&] { annotate(model, output, {.from = valid.model}); },
                          [&] { annotate(valid.model, output, {.from = model}); },
                      });
}

const Target target("annotate_with_source", run, 16384, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
