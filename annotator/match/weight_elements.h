// WeightElements: single elements of an initializer as numbers, also where a tool quantised it. A scale and a zero
// point that hold for a row or a column change no order within it and are left out; those of blocks are taken in,
// since a block begins and ends within a row, and one of the whole tensor, since few elements of a row have no mean.
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

// Numbers of whole bytes, or two of four bits in each byte, the lower half first. Refers to the bytes.
class StoredNumbers {
 public:
  StoredNumbers() = default;
  // Nothing where the bytes are not at hand, fewer than the sizes say, or of another dtype than numbers have.
  static std::optional<StoredNumbers> of(const StructureTensor& tensor);
  static StoredNumbers halves(std::string_view bytes) { return StoredNumbers(bytes, false); }

  std::size_t size() const { return whole_ ? whole_->size() : bytes_.size() * 2; }
  double number(std::size_t index) const;  // requires index < size()

 private:
  StoredNumbers(std::string_view bytes, bool with_sign) : bytes_(bytes), signed_(with_sign) {}

  std::optional<program::Elements> whole_;
  std::string_view bytes_;
  bool signed_ = false;
};

// One scale for each block of a matrix, which has as many blocks in every row.
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

  // Sizes without leading ones, as a matrix: the first, and the product of the others. A vector is one row.
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t inner_columns() const { return inner_columns_; }  // the last of three sizes, or all columns
  double number(std::int64_t row, std::int64_t column) const;

 private:
  StoredNumbers stored_;
  std::shared_ptr<const BlockScales> blocks_;
  std::int64_t rows_ = 1, columns_ = 0, inner_columns_ = 0;
};

// The elements of a file's initializers. Finds out once which of them are quantised in blocks, and by which scales.
class FileWeights {
 public:
  explicit FileWeights(const FileStructure<Side::foreign>& file);
  std::optional<WeightElements> of(const StructureTensor& tensor) const;  // one of the file's

 private:
  struct Quantised {
    std::vector<std::int64_t> dims;
    bool halves = false;  // two numbers in each byte, of a tensor of bytes
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
