// Calls of a language model with small inputs, to compare what a file and a program compute from them. Inputs are known
// by the names that all builders give them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "annotator/comparison/written_out.h"
#include "annotator/graph/graph.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

enum class Padding : std::uint8_t { none, left, right };

// Sizes of a call. The first positions are in the cache.
struct TokenCall {
  std::int64_t batch = 1, positions = 1, cached = 0;
  Padding padding = Padding::none;

  bool is_padding(std::int64_t row, std::int64_t position) const;
};

// Returns the sizes of the recorded call; nullopt if the program has no tokens, or very many.
std::optional<TokenCall> call_of(const graph::Graph& graph);
// The program computes all positions, the file those that are not cached.
std::map<graph::GraphValueId, TensorData> program_inputs(const graph::Graph& graph, const TokenCall& call);
std::map<std::string_view, TensorData> file_inputs(const onnx_file::OnnxGraph& graph, const WrittenOut& written,
                                                   const TokenCall& call);

}  // namespace whence::comparison
