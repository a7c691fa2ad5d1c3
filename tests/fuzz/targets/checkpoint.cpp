// Reads weights saved by other programs: a safetensors file; after an 'i', an index of shards; after a 'p', the pickle
// of a torch.save zip with two storages.
#include "annotator/checkpoint/checkpoint.h"

#include "tests/fuzz/stored_zip.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string storage(64, '\x3f');
  std::string path;
  if (input.starts_with('p')) {
    path = file_of("model.pt", stored_zip({{"model/data.pkl", input.substr(1)},
                                           {"model/byteorder", "little"},
                                           {"model/data/0", storage},
                                           {"model/data/1", storage}}));
  } else {
    const bool index = input.starts_with('i');
    path = file_of(index ? "model.safetensors.index.json" : "model.safetensors", std::string(input.substr(index)));
  }
  Diagnostics notes;
  for (const checkpoint::CheckpointTensor& each : checkpoint::read_checkpoint(path, notes)) {
    require(each.data.bytes.size() == static_cast<std::size_t>(each.data.element_count()) * size_of(each.data.dtype),
            "a tensor's bytes do not match its sizes");
  }
}

const Target target("checkpoint", run, 4096);

}  // namespace
}  // namespace whence::fuzz
