#include "annotator/app/fitting_sidecar.h"

#include <algorithm>

#include "annotator/metadata/attribution.h"
#include "annotator/origin/keys/program.h"

namespace whence::app {

namespace keys = origin::keys;

std::optional<Sidecar> read_sidecar_if_given(const std::optional<std::string>& path, Diagnostics& notes) {
  if (!path) return std::nullopt;
  return unwrap(read_sidecar(*path), notes);
}

std::optional<Sidecar> read_fitting_sidecar(const std::optional<std::string>& path,
                                            const std::vector<const onnx_file::OnnxSummary*>& models,
                                            Diagnostics& notes) {
  std::optional<Sidecar> sidecar = read_sidecar_if_given(path, notes);
  if (!sidecar) return std::nullopt;
  const bool none_belongs = std::ranges::all_of(models, [&](const onnx_file::OnnxSummary* model) {
    const bool states_program = onnx_file::find_property(model->metadata, keys::program) ||
                                onnx_file::find_property(model->metadata, keys::matched);
    return states_program && !metadata::belongs_to(*model, sidecar->program);
  });
  if (!none_belongs) return sidecar;
  throw Error(Code::sidecar_mismatch,
              "the sidecar describes a different program from the one from which " + models.front()->file->path() +
                  " was exported or annotated",
              "pass the sidecar of that program, or none", {.file = *path, .stage = "read"});
}

}  // namespace whence::app
