// Reads the file of `whence annotate --value-pairs`, with a fixed model and sidecar.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

// The model is from PyTorch's exporter, because nodes of whence's exports state their origin and are not compared. It
// is small, because it is matched with each input.
constexpr const char* folder = WHENCE_SOURCE_DIR "/tests/fuzz/value_pairs/";

void run(std::string_view input) {
  const std::string path = file_of("value_pairs.json", input);
  const std::string model = std::string(folder) + "model.onnx", sidecar = std::string(folder) + "recorded.whence.json";
  attempt([&] { annotate(model, scratch("output.onnx"), {.sidecar = sidecar, .value_pairs = path}); });
}

const Target target("value_pairs", run, 4096, mutate_json);

}  // namespace
}  // namespace whence::fuzz
