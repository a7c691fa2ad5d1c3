#include "annotator/match/weight_elements.h"

#include <algorithm>
#include <utility>

#include "annotator/onnx_file/wire_in.h"
#include "schema/dtype.h"
#include "schema/element_count.h"

namespace whence::match {

namespace wire = onnx_file::wire;

namespace {

constexpr int uint4 = 21, int4 = 22;  // onnx::TensorProto::DataType

std::int64_t integer_of(const onnx_file::OnnxNode& node, std::string_view name, std::int64_t otherwise) {
  constexpr std::uint32_t integer = 3;  // AttributeProto.i
  const Place place{.stage = "match"};
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    for (wire::FieldReader reader(attribute.message, place); !reader.done();) {
      const wire::Field field = reader.next();
      if (field.number == integer) return static_cast<std::int64_t>(field.value);
    }
  }
  return otherwise;
}

}  // namespace

std::optional<StoredNumbers> StoredNumbers::of(const StructureTensor& tensor) {
  const auto count = static_cast<std::size_t>(element_count(tensor.dims));
  if (tensor.data_type == uint4 || tensor.data_type == int4) {
    if (tensor.bytes.size() < (count + 1) / 2) return std::nullopt;
    return StoredNumbers(tensor.bytes, tensor.data_type == int4);
  }
  StoredNumbers numbers;
  const auto bytes = Bytes::part_of(nullptr, tensor.bytes.data(), tensor.bytes.size());
  numbers.elements_ = program::Elements::of({from_onnx(tensor.data_type), tensor.dims, bytes});
  return numbers.elements_ ? std::optional(numbers) : std::nullopt;
}

double StoredNumbers::number(std::size_t index) const {
  if (elements_) return elements_->number(index);
  const auto byte = static_cast<unsigned char>(bytes_[index / 2]);
  const int half = index % 2 == 0 ? byte & 0xf : byte >> 4;
  return signed_ && half >= 8 ? half - 16 : half;
}

WeightElements::WeightElements(StoredNumbers stored, std::vector<std::int64_t> dims,
                               std::shared_ptr<const BlockScales> blocks)
    : stored_(std::move(stored)), blocks_(std::move(blocks)) {
  dims = without_leading_ones(std::move(dims));
  const std::int64_t count = element_count(dims);
  rows_ = dims.size() > 1 && count > 0 ? dims.front() : 1;
  columns_ = count / rows_;
  inner_columns_ = dims.size() == 3 && count > 0 ? dims.back() : columns_;
}

double WeightElements::number(std::int64_t row, std::int64_t column) const {
  const double stored = stored_.number(static_cast<std::size_t>(row * columns_ + column));
  if (!blocks_) return stored;
  const std::int64_t block_row = row / blocks_->block_rows, block_column = column / blocks_->block_columns;
  const auto at = static_cast<std::size_t>(block_row * blocks_->blocks_per_row + block_column);
  double zero = blocks_->zero;
  if (blocks_->zeros) {
    zero = blocks_->zeros->number(static_cast<std::size_t>(block_row) * blocks_->zeros_per_row +
                                  static_cast<std::size_t>(block_column));
  }
  return (stored - zero) * blocks_->scales.number(at);
}

FileWeights::FileWeights(const FileStructure<Side::foreign>& file) : file_(file) {
  for (const auto& node : file.structure.nodes) {
    if (node.op_type == "DequantizeLinear") add_dequantized(node);
    if (node.op_type == "MatMulNBits") add_packed(node);
  }
}

std::optional<WeightElements> FileWeights::of(const StructureTensor& tensor) const {
  const auto found = quantised_.find(&tensor);
  if (found != quantised_.end() && found->second.halves) {
    return WeightElements(StoredNumbers::halves(tensor.bytes), found->second.dims, found->second.blocks);
  }
  const auto stored = StoredNumbers::of(tensor);
  if (!stored) return std::nullopt;
  if (found == quantised_.end()) return WeightElements(*stored, tensor.dims, nullptr);
  return WeightElements(*stored, found->second.dims, found->second.blocks);
}

const StructureTensor* FileWeights::tensor_at(const StructureNode<Side::foreign>& node, std::size_t slot) const {
  if (slot >= node.inputs.size() || !node.inputs[slot].exists()) return nullptr;
  const ForeignTensor tensor = file_.structure.values[node.inputs[slot]].tensor;
  return tensor.exists() ? &file_.structure.tensors[tensor] : nullptr;
}

// Returns the weight that a DequantizeLinear reads, also through a Gather of its rows.
const StructureTensor* FileWeights::dequantized(const StructureNode<Side::foreign>& node) const {
  if (const StructureTensor* weight = tensor_at(node, 0)) return weight;
  if (node.inputs.empty() || !node.inputs[0].exists()) return nullptr;
  for (const ForeignNode maker : file_.structure.makers(node.inputs[0])) {
    const auto& picks = file_.structure.nodes[maker];
    if (picks.op_type == "Gather") return tensor_at(picks, 0);
  }
  return nullptr;
}

// Adds the scales of a DequantizeLinear, either for the complete tensor (one scale and one zero point) or for blocks
// (the scales have as many axes as the weight, one of them shorter).
void FileWeights::add_dequantized(const StructureNode<Side::foreign>& node) {
  const StructureTensor *weight = dequantized(node), *scale = tensor_at(node, 1), *zero = tensor_at(node, 2);
  if (weight == nullptr || scale == nullptr) return;
  const auto is_one = [](const StructureTensor& tensor) { return element_count(tensor.dims) == 1; };
  if (is_one(*scale) && zero != nullptr && is_one(*zero)) {
    const auto scales = StoredNumbers::of(*scale), zeros = StoredNumbers::of(*zero);
    if (!scales || !zeros) return;
    BlockScales all{.scales = *scales, .zero = zeros->number(0)};
    all.block_rows = all.block_columns = std::max<std::int64_t>(element_count(weight->dims), 1);
    quantised_[weight] = {weight->dims, false, std::make_shared<const BlockScales>(all)};
    return;
  }
  if (weight->dims.size() != 2 || scale->dims.size() != 2) return;
  const std::int64_t rows = weight->dims[0], columns = weight->dims[1];
  const std::int64_t down = scale->dims[0], across = scale->dims[1];
  const auto scales = StoredNumbers::of(*scale);
  if (!scales || rows < 1 || columns < 1 || down < 1 || across < 1) return;
  BlockScales blocks{.scales = *scales,
                     .block_rows = (rows + down - 1) / down,
                     .block_columns = (columns + across - 1) / across,
                     .blocks_per_row = across};
  if (zero != nullptr && zero->dims == scale->dims) {
    blocks.zeros = StoredNumbers::of(*zero);
    blocks.zeros_per_row = static_cast<std::size_t>(across);
  }
  quantised_[weight] = {weight->dims, false, std::make_shared<const BlockScales>(blocks)};
}

// Adds the scales of a MatMulNBits: its weight is [rows, blocks of a row, bytes of a block], with a scale for each
// block. The zero points of each row begin at a new byte.
void FileWeights::add_packed(const StructureNode<Side::foreign>& node) {
  const StructureTensor *weight = tensor_at(node, 1), *scale = tensor_at(node, 2), *zero = tensor_at(node, 3);
  if (weight == nullptr || scale == nullptr || weight->dims.size() != 3 || !node.source.exists()) return;
  const std::int64_t bits = integer_of(*file_.file_nodes[node.source], "bits", 4);
  const std::int64_t rows = weight->dims[0], across = weight->dims[1], bytes = weight->dims[2];
  const auto scales = StoredNumbers::of(*scale);
  const std::int64_t count = element_count(weight->dims);
  if (count == 0 || weight->bytes.size() < static_cast<std::size_t>(count) || (bits != 4 && bits != 8)) return;
  if (!scales || scales->size() != static_cast<std::size_t>(rows * across)) return;
  const bool halves = bits == 4;
  const std::int64_t columns = halves ? bytes * 2 : bytes;
  BlockScales blocks{
      .scales = *scales, .zero = halves ? 8.0 : 128.0, .block_columns = columns, .blocks_per_row = across};
  if (zero != nullptr) {
    const bool packed = halves && from_onnx(zero->data_type) == DType::uint8;
    blocks.zeros = packed ? StoredNumbers::halves(zero->bytes) : StoredNumbers::of(*zero);
    blocks.zeros_per_row = static_cast<std::size_t>(packed ? (across + 1) / 2 * 2 : across);
    if (!blocks.zeros || blocks.zeros->size() < blocks.zeros_per_row * static_cast<std::size_t>(rows)) return;
  }
  quantised_[weight] = {{rows, across * columns}, halves, std::make_shared<const BlockScales>(blocks)};
}

}  // namespace whence::match
