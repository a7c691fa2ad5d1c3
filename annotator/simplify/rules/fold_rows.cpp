// table, [0, 1, 2] -> Gather                           before: rows of a constant at constant indices
// rows                                                 after; also ConstantOfShape of a constant shape
// Condition: the rows are no larger than the table that they replace, or small. So the file does not grow, and a table
// that others read is not stored twice. Parameters stay: position embeddings keep their name and their node. Origins:
// the constant has the origin of the node it replaces.
#include <cstring>

#include "annotator/graph/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence {

namespace {

constexpr std::uint64_t small = 65536;  // bytes

std::uint64_t size_in_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t size = size_of(dtype);
  for (const std::int64_t dim : shape) size *= static_cast<std::uint64_t>(dim);
  return size;
}

// table: [n, *row], indices: any shape of int64 or int32; result: indices' shape, then row's. nullopt: out of range.
std::optional<TensorData> gather_rows(const TensorData& table, const TensorData& indices) {
  TensorData rows{table.dtype, indices.shape, {}};
  rows.shape.insert(rows.shape.end(), table.shape.begin() + 1, table.shape.end());
  const std::int64_t count = table.shape[0];
  const std::size_t row = count == 0 ? 0 : table.bytes.size / static_cast<std::size_t>(count);
  std::string bytes(size_in_bytes(rows.dtype, rows.shape), '\0');
  for (std::int64_t i = 0; i < indices.element_count(); ++i) {
    std::int64_t at = integer_at(indices, static_cast<std::size_t>(i));
    if (at < 0) at += count;
    if (at < 0 || at >= count) return std::nullopt;
    const std::size_t place = static_cast<std::size_t>(i) * row;
    std::memcpy(bytes.data() + place, table.bytes.data + static_cast<std::size_t>(at) * row, row);
  }
  rows.bytes = Bytes::owned(std::move(bytes));
  return rows;
}

std::optional<TensorData> fill(const GraphNode& node, const std::vector<std::int64_t>& shape) {
  const float zero = 0;
  TensorData element{DType::float32, {1}, Bytes::copy_of(&zero, sizeof zero)};
  if (const Attribute* value = node.find("value")) element = std::get<TensorData>(value->value);
  const std::uint64_t size = size_in_bytes(element.dtype, shape);
  if (size > small) return std::nullopt;
  std::string bytes;
  while (bytes.size() < size) {
    bytes.append(reinterpret_cast<const char*>(element.bytes.data), size_of(element.dtype));
  }
  return TensorData{element.dtype, shape, Bytes::owned(std::move(bytes))};
}

bool worth_it(const Rewriter& r, GraphValueId table_id, const TensorData& table, const TensorData& indices) {
  if (table.shape.empty() || table.shape[0] == 0) return false;
  const std::uint64_t row = table.bytes.size / static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t size = row * static_cast<std::uint64_t>(indices.element_count());
  return size <= small || (r.use_count(table_id) == 1 && size <= table.bytes.size);
}

}  // namespace

Outcome fold_rows(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  std::optional<TensorData> folded;
  std::string name;
  if (is(node, "ConstantOfShape")) {
    const auto shape = rewriter.integers(node.inputs[0]);
    if (!shape) return not_mine();
    folded = fill(node, *shape);
  } else if (is(node, "Gather") && node.int_attribute("axis", 0) == 0) {
    const TensorData* table = rewriter.constant(node.inputs[0]);
    const TensorData* indices = rewriter.constant(node.inputs[1]);
    if (table == nullptr || indices == nullptr) return not_mine();
    if (rewriter.is_parameter(node.inputs[0])) return refused("the table is a parameter of the model");
    if (!worth_it(rewriter, node.inputs[0], *table, *indices)) return refused("the rows take more room than the table");
    folded = gather_rows(*table, *indices);
    const std::string& table_name = rewriter.value(node.inputs[0]).name;
    if (!table_name.empty()) name = table_name + ".rows";
  }
  if (!folded || rewriter.is_output(node.outputs[0])) return not_mine();
  const GraphValueId result = node.outputs[0];
  rewriter.replace(result, rewriter.constant(std::move(*folded), node.origin, std::move(name)));
  return changed();
}

}  // namespace whence
