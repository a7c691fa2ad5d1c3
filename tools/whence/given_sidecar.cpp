#include "tools/whence/given_sidecar.h"

#include <algorithm>

#include "annotator/metadata/attribution.h"
#include "annotator/origin/keys/program.h"

namespace whence {

namespace keys = origin::keys;

std::optional<Sidecar> read_given_sidecar(const CommandLine& line,
                                          const std::vector<const onnx_file::OnnxSummary*>& models,
                                          Diagnostics& notes) {
  if (!line.has("sidecar")) return std::nullopt;
  Sidecar sidecar = unwrap(read_sidecar(line.text("sidecar")), notes);
  const bool of_others = std::ranges::all_of(models, [&](const onnx_file::OnnxSummary* model) {
    const bool says_whose = onnx_file::find_property(model->metadata, keys::program) ||
                            onnx_file::find_property(model->metadata, keys::matched);
    return says_whose && !metadata::belongs_to(*model, sidecar.program);
  });
  if (!of_others) return sidecar;
  throw Error(Code::sidecar_mismatch,
              "the sidecar describes another program than the one that " + models.front()->file->path() +
                  " was exported from or annotated with",
              "give the sidecar of that one, or none", {.file = line.text("sidecar"), .stage = "read"});
}

}  // namespace whence
