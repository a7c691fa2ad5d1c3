// WeightElements: single elements of an initializer as numbers, also of a quantised one. The scale and zero point of a
// row or column do not change the order within it and are not applied. Those of blocks are applied because a block
// begins and ends within a row; those of the complete tensor as well, because the mean of a few elements in a row is
// not reliable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/program/tensor_values.h"

namespace whence::match {

// Numbers of one or more bytes, or two of four bits in each byte, the lower half first. Refers to the bytes.
class StoredNumbers {
 public:
  StoredNumbers() = default;
  // Returns nullopt if the bytes are missing or too few for the sizes, or if the dtype has no numbers.
  static std::optional<StoredNumbers> of(const StructureTensor& tensor);
  static StoredNumbers halves(std::string_view bytes) { return StoredNumbers(bytes, false); }

  std::size_t size() const { return elements_ ? elements_->size() : bytes_.size() * 2; }
  double number(std::size_t index) const;  // requires index < size()

 private:
  StoredNumbers(std::string_view bytes, bool with_sign) : bytes_(bytes), signed_(with_sign) {}

  std::optional<program::Elements> elements_;
  std::string_view bytes_;
  bool signed_ = false;
};

// One scale for each block of a matrix. Every row has the same number of blocks.
struct BlockScales {
  StoredNumbers scales;
  std::optional<StoredNumbers> zeros = {};  // none: `zero` everywhere
  double zero = 0;
  std::size_t zeros_per_row = 0;
  std::int64_t block_rows = 1, block_columns = 1, blocks_per_row = 1;
};

inline std::vector<std::int64_t> without_leading_ones(std::vector<std::int64_t> dims) {
  while (dims.size() > 1 && dims.front() == 1) dims.erase(dims.begin());
  return dims;
}

class WeightElements {
 public:
  WeightElements(StoredNumbers stored, std::vector<std::int64_t> dims, std::shared_ptr<const BlockScales> blocks);

  // Sizes as a matrix, without leading ones: the first size, and the product of the others. A vector is one row.
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t inner_columns() const { return inner_columns_; }  // the last of three sizes, or all columns
  double number(std::int64_t row, std::int64_t column) const;

 private:
  StoredNumbers stored_;
  std::shared_ptr<const BlockScales> blocks_;
  std::int64_t rows_ = 1, columns_ = 0, inner_columns_ = 0;
};

// The elements of a file's initializers. The constructor finds the quantised ones and their scales.
class FileWeights {
 public:
  explicit FileWeights(const FileStructure<Side::foreign>& file);
  std::optional<WeightElements> of(const StructureTensor& tensor) const;  // of the file

 private:
  struct Quantised {
    std::vector<std::int64_t> dims;
    bool halves = false;  // two numbers in each byte
    std::shared_ptr<const BlockScales> blocks;
  };
  void add_dequantized(const StructureNode<Side::foreign>& node);
  const StructureTensor* dequantized(const StructureNode<Side::foreign>& node) const;
  void add_packed(const StructureNode<Side::foreign>& node);
  const StructureTensor* tensor_at(const StructureNode<Side::foreign>& node, std::size_t slot) const;

  const FileStructure<Side::foreign>& file_;
  std::unordered_map<const StructureTensor*, Quantised> quantised_;
};

}  // namespace whence::match
