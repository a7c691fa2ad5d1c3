// Finds parameters by their sketches in tensors that are rounded, transposed, concatenated or split.
#include <cmath>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/match/tensor_sketches.h"

namespace whence::match {
namespace {

// A row-major matrix.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> numbers = {};

  static Matrix of_seed(std::int64_t rows, std::int64_t columns, double seed) {
    Matrix result{rows, columns};
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      result.numbers.push_back(static_cast<float>(std::sin(seed * static_cast<double>(i * i + 3 * i + 1))));
    }
    return result;
  }
  float at(std::int64_t row, std::int64_t column) const {
    return numbers[static_cast<std::size_t>(row * columns + column)];
  }
  Matrix transposed() const {
    Matrix result{columns, rows};
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row) result.numbers.push_back(at(row, column));
    }
    return result;
  }
  Matrix above(const Matrix& other) const {
    Matrix result{rows + other.rows, columns, numbers};
    result.numbers.insert(result.numbers.end(), other.numbers.begin(), other.numbers.end());
    return result;
  }
  Matrix left_of(const Matrix& other) const { return transposed().above(other.transposed()).transposed(); }
  Matrix part(std::int64_t first_row, std::int64_t row_count) const {
    Matrix result{row_count, columns};
    for (std::int64_t i = first_row * columns; i < (first_row + row_count) * columns; ++i) {
      result.numbers.push_back(numbers[static_cast<std::size_t>(i)]);
    }
    return result;
  }
  // Rounds like a quantiser, with one scale per row.
  Matrix rounded(float scale) const {
    Matrix result{rows, columns};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      result.numbers.push_back(std::round(numbers[i] * 127) * scale *
                               (i / static_cast<std::size_t>(columns) % 2 == 0 ? 1 : -1));
    }
    return result;
  }
};

class Sketches : public ::testing::Test {
 protected:
  Sketches() {
    add(query_);
    add(key_);
  }
  void add(const Matrix& matrix) {
    ReferenceParameter parameter;
    parameter.dims = {matrix.rows, matrix.columns};
    parameter.dtype = DType::float32;
    parameter.sketch =
        sketch_of({DType::float32, parameter.dims, Bytes::copy_of(matrix.numbers.data(), matrix.numbers.size() * 4)});
    reference_.parameters.push_back(parameter);
  }
  // Returns the indices of the matching parameters in the order of their parts of the tensor.
  std::vector<int> find(const Matrix& matrix) {
    StructureTensor tensor;
    tensor.data_type = onnx::TensorProto::FLOAT;
    tensor.dims = {matrix.rows, matrix.columns};
    tensor.bytes = {reinterpret_cast<const char*>(matrix.numbers.data()), matrix.numbers.size() * 4};
    const WeightElements elements(StoredNumbers::of(tensor).value(), tensor.dims, nullptr);
    const SketchFindings findings = ParameterSketches(reference_).find(elements);
    std::vector<int> indices;
    for (const TensorSource& source : findings.sources) indices.push_back(source.parameter.number());
    EXPECT_EQ(findings.recognised, !indices.empty());
    comparable_ = findings.comparable;
    return indices;
  }

  const Matrix query_ = Matrix::of_seed(12, 10, 1.7), key_ = Matrix::of_seed(12, 10, 2.9),
               other_ = Matrix::of_seed(12, 10, 0.9);
  Reference reference_;
  bool comparable_ = false;
};

using Indices = std::vector<int>;

TEST_F(Sketches, FindsTransposedOrRoundedParameters) {
  EXPECT_EQ(find(query_), Indices{0});
  EXPECT_EQ(find(key_), Indices{1});
  EXPECT_EQ(find(key_.transposed()), Indices{1});
  EXPECT_EQ(find(query_.rounded(0.25F)), Indices{0});  // with other scales and signs of rows
}

TEST_F(Sketches, OtherWeightsDoNotMatch) {
  EXPECT_EQ(find(other_), Indices{});
  EXPECT_TRUE(comparable_);  // its sizes are those of a parameter
  EXPECT_EQ(find(Matrix::of_seed(7, 5, 1.7)), Indices{});
  EXPECT_FALSE(comparable_);
}

TEST_F(Sketches, FindsConcatenatedParameters) {
  EXPECT_EQ(find(query_.above(key_)), (Indices{0, 1}));
  EXPECT_EQ(find(key_.above(query_)), (Indices{1, 0}));
  EXPECT_EQ(find(query_.left_of(key_)), (Indices{0, 1}));
  EXPECT_EQ(find(query_.transposed().above(key_.transposed())), (Indices{0, 1}));
  EXPECT_EQ(find(key_.transposed().left_of(query_.transposed())), (Indices{1, 0}));
  EXPECT_EQ(find(other_.above(key_)), Indices{1});
}

TEST_F(Sketches, FindsAPieceOfAParameter) {
  EXPECT_EQ(find(key_.part(0, 6)), Indices{1});
  EXPECT_EQ(find(key_.part(6, 6)), Indices{1});
  EXPECT_EQ(find(query_.part(6, 6).transposed()), Indices{0});
  EXPECT_EQ(find(query_.transposed().part(5, 5).transposed()), Indices{0});  // five columns
}

TEST_F(Sketches, EqualParametersAreAllCandidates) {
  add(query_);
  EXPECT_EQ(find(query_), (Indices{0, 2}));
  for (int i = 0; i < 40; ++i) add(query_);
  StructureTensor tensor;
  tensor.data_type = onnx::TensorProto::FLOAT;
  tensor.dims = {query_.rows, query_.columns};
  tensor.bytes = {reinterpret_cast<const char*>(query_.numbers.data()), query_.numbers.size() * 4};
  const auto findings = ParameterSketches(reference_).find({StoredNumbers::of(tensor).value(), tensor.dims, nullptr});
  EXPECT_TRUE(findings.recognised);
  EXPECT_TRUE(findings.sources.empty());  // too many candidates
}

}  // namespace
}  // namespace whence::match
