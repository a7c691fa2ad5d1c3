#include "annotator/comparison/token_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "schema/dtype.h"

namespace whence::comparison {
namespace {

constexpr std::string_view padding_name = "attention_mask", ids_name = "input_ids";

TensorData integers(DType dtype, std::vector<std::int64_t> shape, const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers)
    bytes.append(reinterpret_cast<const char*>(&number), size_of(dtype));  // little-endian
  return {dtype, std::move(shape), Bytes::owned(std::move(bytes))};
}

// Returns an input of a language model by its name: tokens that are seen, positions, and otherwise numbers
// that differ.
TensorData input_of(std::string_view name, DType dtype, std::vector<std::int64_t> shape, const TokenCall& call) {
  std::vector<std::int64_t> numbers;
  const std::int64_t columns = shape.back();
  for (std::int64_t row = 0; row < call.batch; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t position = call.positions - columns + column;
      const bool is_seen = name == padding_name && !call.is_padding(row, position);
      const std::int64_t token = name == padding_name ? 0 : 1 + row * call.positions + position;
      numbers.push_back(name == "position_ids" ? position : is_seen ? 1 : token);
    }
  }
  return integers(dtype, std::move(shape), numbers);
}

bool is_of_tokens(DType dtype, std::size_t rank) {
  return rank == 2 && (is_integral(dtype) || dtype == DType::boolean);
}

}  // namespace

bool TokenCall::is_padding(std::int64_t row, std::int64_t position) const {
  // More in each row, so that a mask of another row is another one.
  const std::int64_t count = std::min(row + 1, positions / 2);
  if (padding == Padding::left) return position < count;
  return padding == Padding::right && position >= positions - count;
}

std::optional<TokenCall> call_of(const graph::Graph& graph) {
  for (const std::string_view name : {padding_name, ids_name}) {
    for (const graph::GraphValueId input : graph.inputs) {
      const graph::GraphValue& value = graph.values[static_cast<std::size_t>(input)];
      if (value.name != name || !value.dims || !is_of_tokens(value.dtype, value.dims->size())) continue;
      const TokenCall call{.batch = (*value.dims)[0].size, .positions = (*value.dims)[1].size};
      constexpr std::int64_t most_elements = std::int64_t{1} << 20, most_positions = 1000;
      if (call.batch > 0 && call.positions > 1 && call.positions <= most_positions &&
          call.batch <= most_elements / call.positions / call.positions)
        return call;
    }
  }
  return std::nullopt;
}

std::map<graph::GraphValueId, TensorData> program_inputs(const graph::Graph& graph, const TokenCall& call) {
  std::map<graph::GraphValueId, TensorData> inputs;
  for (const graph::GraphValueId input : graph.inputs) {
    const graph::GraphValue& value = graph.values[static_cast<std::size_t>(input)];
    if (value.dims && is_of_tokens(value.dtype, value.dims->size()))
      inputs.emplace(input, input_of(value.name, value.dtype, {call.batch, call.positions}, call));
  }
  return inputs;
}

std::map<std::string_view, TensorData> file_inputs(const onnx_file::OnnxGraph& graph, const WrittenOut& written,
                                                   const TokenCall& call) {
  std::map<std::string_view, TensorData> inputs;
  for (const onnx_file::OnnxValue& input : graph.inputs) {
    onnx::TypeProto type;
    if (!type.ParseFromArray(input.type.data(), static_cast<int>(input.type.size()))) continue;
    const auto& tensor = type.tensor_type();
    const DType dtype = from_onnx(tensor.elem_type());
    const auto rank = static_cast<std::size_t>(tensor.shape().dim_size());
    if (is_of_tokens(dtype, rank)) {
      const std::int64_t columns = input.name == padding_name ? call.positions : call.positions - call.cached;
      inputs.emplace(input.name, input_of(input.name, dtype, {call.batch, columns}, call));
    } else if (rank == 4 && std::ranges::find(written.caches, input.name, &CachePair::past) != written.caches.end()) {
      // Masks read its sizes only.
      inputs.emplace(input.name, TensorData{dtype,
                                            {call.batch, tensor.shape().dim(1).dim_value(), call.cached,
                                             tensor.shape().dim(3).dim_value()},
                                            Bytes::left_out(0)});
    }
  }
  return inputs;
}

}  // namespace whence::comparison
