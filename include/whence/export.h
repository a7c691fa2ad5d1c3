// Export archives, TorchScript (.pt) or torch.export (.pt2), to ONNX files whose nodes know where they come from.
//
//   whence::export_archive("bert.pt2", "bert.onnx", {.dynamic_axes = {{"input_ids", {{0, "batch"}}}}});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). A .pt2 needs no LibTorch; for a .pt the
// recorder is loaded: $WHENCE_RECORDER, else libwhence_recorder.so where whence was installed. Live modules: record.h.
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
  std::string file, sidecar;  // sidecar: empty when none was asked for
  std::uint64_t size = 0;     // size of the file in bytes
  int opset = 0;
  std::int64_t nodes = 0;                    // bodies included
  std::set<std::string> operators;           // "Gemm", "whence.aten::gelu"
  std::vector<std::string> inputs, outputs;  // "input_ids int64[batch,16]"
  std::optional<FunctionsReport> functions;
  std::vector<std::pair<std::string, double>> stages;  // wall time of each in seconds
  Diagnostics notes;
};

// The file is written as a whole, with its sidecar and data files, or nothing is. Throws whence::Error with every
// operator that has no converter at once.
ExportReport export_archive(const std::string& archive, const std::string& output, const Options& options = {});

}  // namespace whence
