// ContentIndex: finds the parameters whose elements a tensor holds unchanged, by digests of rows, columns and complete
// parameters: as they are, reshaped, transposed, sliced, concatenated, with rows or axes in another order.
//
// Two orientations on both sides cover what tools do with a matrix: rows of the tensor are rows or columns of
// parameters, or its columns are. Memory: 8 bytes for each row and each column of a parameter, twice.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/lines.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

// Elements to find: row-major bytes of `dtype`.
struct Content {
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims;
  std::string_view bytes;
};

// Returns how well a parameter's name fits the tensor; 0: no relation. Chooses between parameters with equal bytes.
using NameFit = std::function<int(std::string_view parameter)>;

class ContentIndex {
 public:
  // `weights` must outlive the index. Reads all bytes once.
  ContentIndex(const Weights& weights, DType dtype);

  // Returns nullopt if no arrangement of parameters gives these elements. A few elements, or many equal ones, count
  // only as a complete parameter; less than four only with a fitting name.
  std::optional<Expression> find(const Content& content, const NameFit& fit) const;

 private:
  struct Parameter {
    std::size_t tensor = 0;  // index in the checkpoint
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> inner;  // without leading ones
    std::uint64_t digest = 0;         // of all elements
    std::vector<std::uint64_t> rows = {}, columns = {};
  };
  struct Line {
    std::uint64_t digest = 0;
    std::uint32_t parameter = 0, index = 0;
    Direction direction = Direction::rows;
  };
  struct Element {
    std::uint64_t bits = 0;
    std::uint32_t parameter = 0, index = 0;
  };

  void add(std::size_t tensor, const TensorData& data);
  std::optional<Expression> find_complete(const Content& content, std::uint64_t digest, const NameFit& fit) const;
  std::optional<std::vector<Piece>> pieces(const std::vector<std::uint64_t>& lines, std::int64_t length,
                                           const NameFit& fit) const;
  std::optional<Expression> find_lines(const Content& content, std::int64_t rows, const NameFit& fit) const;
  std::optional<Expression> find_vector(const Content& content, const NameFit& fit) const;
  std::optional<Expression> find_permuted(const Content& content, std::uint64_t digest, const NameFit& fit) const;
  std::optional<Expression> find_slices(const Content& content, const NameFit& fit) const;
  Expression leaf(std::uint32_t parameter, const NameFit& fit) const;
  Expression joined_pieces(const std::vector<Piece>& pieces, const NameFit& fit) const;
  const std::string& name(std::uint32_t parameter) const {
    return weights_.tensors()[parameters_[parameter].tensor].name;
  }

  // Returns true for a parameter that the search in progress does not use: what the program computes is tried last.
  bool is_skipped(std::uint32_t parameter) const {
    return !uses_computed_ && weights_.is_computed(parameters_[parameter].tensor);
  }
  std::optional<Expression> find_arrangement(const Content& content, const NameFit& fit) const;

  const Weights& weights_;
  DType dtype_;
  mutable bool uses_computed_ = false;
  std::vector<Parameter> parameters_;
  std::vector<Line> lines_;        // sorted by digest
  std::vector<Element> elements_;  // of vectors, sorted by bits
};

}  // namespace whence::derivation
