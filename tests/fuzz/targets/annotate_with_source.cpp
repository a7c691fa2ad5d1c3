// Annotates a hostile file with the sidecar of another model and from another annotated file, and a good file from a
// hostile one.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), output = scratch("output.onnx");
  const GoodModel& good = good_model();
  attempt_each(input, {
                          [&] { annotate(model, output, {.sidecar = good.sidecar, .allow_different_weights = true}); },
                          [&] { annotate(model, output, {.from = good.model}); },
                          [&] { annotate(good.model, output, {.from = model}); },
                      });
}

const Target target("annotate_with_source", run, 16384, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
