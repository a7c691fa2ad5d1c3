// The list of operator families: the only place outside its family that a new operator could touch.
#include "annotator/convert/op_table.h"

#include <algorithm>

#include "annotator/convert/ops/families.h"
#include "schema/result.h"

namespace whence::convert {
namespace {

std::vector<OpFamily> families() {
  return {
      activation_ops(),
      arithmetic_ops(),
      comparison_ops(),
      reduction_ops(),
      shape_ops(),
      creation_ops(),
      index_ops(),
      cast_ops(),
      division_ops(),
      joining_ops(),
      scatter_ops(),
      slicing_ops(),
      unary_ops(),
      linear_ops(),
      einsum_ops(),
      grouped_matmul_ops(),
      convolution_ops(),
      pooling_ops(),
      adaptive_pooling_ops(),
      normalization_ops(),
      softmax_ops(),
      attention_ops(),
      embedding_ops(),
      recurrent_ops(),
      resize_ops(),
      grid_ops(),
      rearrange_ops(),
      padding_ops(),
      sorting_ops(),
      repeat_ops(),
      segment_ops(),
      window_ops(),
      random_ops(),
      statistics_ops(),
      quantile_ops(),
      vector_ops(),
      matrix_ops(),
      solve_ops(),
      loss_ops(),
      quantization_ops(),
      running_ops(),
      spectral_ops(),
      symbolic_ops(),
      sequence_ops(),
      special_ops(),
      detection_ops(),
      onnx_native_ops(),
  };
}

// "aten::add.Tensor(Tensor self, ...) -> Tensor" -> "aten::add.Tensor"
std::string_view key_of(const char* schema) {
  const std::string_view text(schema);
  return text.substr(0, text.find('('));
}

}  // namespace

OpTable& OpTable::get() {
  static OpTable table;
  return table;
}

OpTable::OpTable() {
  for (const OpFamily family : families()) {
    for (const OpEntry& entry : family) {
      const std::string_view key = key_of(entry.schema);
      if (!lines_.try_emplace(key, Line{&entry, nullptr}).second) {
        throw Error(Code::internal, "two converters for " + std::string(key), "remove one of the two table lines");
      }
    }
  }
}

const OpEntry* OpTable::find(std::string_view key) const {
  const auto line = lines_.find(key);
  return line == lines_.end() ? nullptr : line->second.entry;
}

const OpSchema* OpTable::schema(std::string_view key) {
  const auto line = lines_.find(key);
  if (line == lines_.end()) return nullptr;
  auto& schema = line->second.schema;
  if (!schema) schema = std::make_unique<OpSchema>(parse_op_schema(line->second.entry->schema));
  return schema.get();
}

std::vector<std::string> OpTable::overloads(std::string_view name) const {
  std::vector<std::string> found;
  for (const auto& [key, line] : lines_) {
    if (key.substr(0, key.find('.')) == name) found.emplace_back(key);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> OpTable::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, line] : lines_) keys.emplace_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace whence::convert
