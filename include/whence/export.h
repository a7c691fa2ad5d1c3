// Exports TorchScript (.pt) and torch.export (.pt2) archives to ONNX files whose nodes state their origins.
//
//   whence::export_archive("bert.pt2", "bert.onnx", {.dynamic_axes = {{"input_ids", {{0, "batch"}}}}});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). A .pt2 needs no LibTorch. A .pt needs
// the recorder: $WHENCE_RECORDER, or libwhence_recorder.so of the installation. For live modules, see record.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "whence/diagnostics.h"
#include "whence/functions.h"
#include "whence/options.h"

namespace whence {

struct ExportReport {
  std::string file, sidecar;  // paths; sidecar is empty unless one was requested
  std::uint64_t size = 0;     // size of the file in bytes
  int opset = 0;
  std::int64_t nodes = 0;                    // includes nodes of bodies
  std::set<std::string> operators;           // "Gemm", "whence.aten::gelu"
  std::vector<std::string> inputs, outputs;  // "input_ids int64[batch,16]"
  std::optional<FunctionsReport> functions;
  std::vector<std::pair<std::string, double>> stages;  // wall time of each stage in seconds
  Diagnostics notes;
};

// Writes the file with its sidecar and data files, or nothing if any of them fails. Throws one whence::Error that lists
// every operator without a converter.
ExportReport export_archive(const std::string& archive, const std::string& output, const Options& options = {});

}  // namespace whence
