// Parameters found again by their sketches: rounded, turned, among others in one tensor, or cut.
#include <cmath>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/match/tensor_sketches.h"

namespace whence::match {
namespace {

// A matrix whose elements follow from a seed; rows after rows.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> numbers = {};

  static Matrix of_seed(std::int64_t rows, std::int64_t columns, double seed) {
    Matrix made{rows, columns};
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      made.numbers.push_back(static_cast<float>(std::sin(seed * static_cast<double>(i * i + 3 * i + 1))));
    }
    return made;
  }
  float at(std::int64_t row, std::int64_t column) const {
    return numbers[static_cast<std::size_t>(row * columns + column)];
  }
  Matrix turned() const {
    Matrix made{columns, rows};
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row) made.numbers.push_back(at(row, column));
    }
    return made;
  }
  Matrix above(const Matrix& other) const {
    Matrix made{rows + other.rows, columns, numbers};
    made.numbers.insert(made.numbers.end(), other.numbers.begin(), other.numbers.end());
    return made;
  }
  Matrix beside(const Matrix& other) const { return turned().above(other.turned()).turned(); }
  Matrix part(std::int64_t first_row, std::int64_t row_count) const {
    Matrix made{row_count, columns};
    for (std::int64_t i = first_row * columns; i < (first_row + row_count) * columns; ++i) {
      made.numbers.push_back(numbers[static_cast<std::size_t>(i)]);
    }
    return made;
  }
  // As a quantiser leaves it, and scaled row by row.
  Matrix rounded(float scale) const {
    Matrix made{rows, columns};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      made.numbers.push_back(std::round(numbers[i] * 127) * scale *
                             (i / static_cast<std::size_t>(columns) % 2 == 0 ? 1 : -1));
    }
    return made;
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
  // The numbers of the parameters found, in the order of the tensor's parts.
  std::vector<int> find(const Matrix& matrix) {
    StructureTensor tensor;
    tensor.data_type = onnx::TensorProto::FLOAT;
    tensor.dims = {matrix.rows, matrix.columns};
    tensor.bytes = {reinterpret_cast<const char*>(matrix.numbers.data()), matrix.numbers.size() * 4};
    const WeightElements elements(StoredNumbers::of(tensor).value(), tensor.dims, nullptr);
    const SketchFindings findings = ParameterSketches(reference_).find(elements);
    std::vector<int> found;
    for (const TensorSource& source : findings.sources) found.push_back(source.parameter.number());
    EXPECT_EQ(findings.recognised, !found.empty());
    comparable_ = findings.comparable;
    return found;
  }

  const Matrix query_ = Matrix::of_seed(12, 10, 1.7), key_ = Matrix::of_seed(12, 10, 2.9),
               other_ = Matrix::of_seed(12, 10, 0.9);
  Reference reference_;
  bool comparable_ = false;
};

using Found = std::vector<int>;

TEST_F(Sketches, AsItIsTurnedOrRounded) {
  EXPECT_EQ(find(query_), Found{0});
  EXPECT_EQ(find(key_), Found{1});
  EXPECT_EQ(find(key_.turned()), Found{1});
  EXPECT_EQ(find(query_.rounded(0.25F)), Found{0});  // neither scales nor signs of rows matter
}

TEST_F(Sketches, AnotherWeightIsNone) {
  EXPECT_EQ(find(other_), Found{});
  EXPECT_TRUE(comparable_);  // it might have been one, by its sizes
  EXPECT_EQ(find(Matrix::of_seed(7, 5, 1.7)), Found{});
  EXPECT_FALSE(comparable_);
}

TEST_F(Sketches, BlocksOfOneTensorAlongEitherAxis) {
  EXPECT_EQ(find(query_.above(key_)), (Found{0, 1}));
  EXPECT_EQ(find(key_.above(query_)), (Found{1, 0}));
  EXPECT_EQ(find(query_.beside(key_)), (Found{0, 1}));
  EXPECT_EQ(find(query_.turned().above(key_.turned())), (Found{0, 1}));
  EXPECT_EQ(find(key_.turned().beside(query_.turned())), (Found{1, 0}));
  EXPECT_EQ(find(other_.above(key_)), Found{1});
}

TEST_F(Sketches, APieceOfOneParameter) {
  EXPECT_EQ(find(key_.part(0, 6)), Found{1});
  EXPECT_EQ(find(key_.part(6, 6)), Found{1});
  EXPECT_EQ(find(query_.part(6, 6).turned()), Found{0});
  EXPECT_EQ(find(query_.turned().part(5, 5).turned()), Found{0});  // columns of it
}

TEST_F(Sketches, ParametersThatAreAlikeAreRivals) {
  add(query_);
  EXPECT_EQ(find(query_), (Found{0, 2}));
  for (int i = 0; i < 40; ++i) add(query_);
  StructureTensor tensor;
  tensor.data_type = onnx::TensorProto::FLOAT;
  tensor.dims = {query_.rows, query_.columns};
  tensor.bytes = {reinterpret_cast<const char*>(query_.numbers.data()), query_.numbers.size() * 4};
  const auto findings = ParameterSketches(reference_).find({StoredNumbers::of(tensor).value(), tensor.dims, nullptr});
  EXPECT_TRUE(findings.recognised);
  EXPECT_TRUE(findings.sources.empty());  // too many to say anything
}

}  // namespace
}  // namespace whence::match
