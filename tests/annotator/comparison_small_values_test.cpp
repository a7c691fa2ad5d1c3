// Tests the values of a file that follow from small inputs.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "annotator/comparison/small_values.h"
#include "annotator/program/tensor_values.h"
#include "tests/annotator/parsed_model.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::FileTensors;

namespace {

class SmallValuesTest : public ::testing::Test {
 protected:
  // Returns the numbers of y in a graph with the input x = [[1, 1, 0]]; {} if they are unknown.
  std::vector<double> numbers(const std::string& nodes) {
    const auto model = summary_of(parse_model("<ir_version: 10, opset_import: [\"\": 21]>\n"
                                              "agraph (int64[1,n] x, float z) => (float y) " +
                                              nodes),
                                  folder_);
    const FileTensors tensors(model);
    Contents contents(model.file->path(), model.file);
    FileValues values(tensors, contents,
                      {{"x", TensorData{DType::int64, {1, 3}, program::integer_vector({1, 1, 0}).bytes}}});
    std::vector<double> found;
    const TensorData* const data = values.of("y");
    const auto elements = data == nullptr ? std::nullopt : program::Elements::of(*data);
    for (std::size_t i = 0; elements && i < elements->size(); ++i) found.push_back(elements->number(i));
    return found;
  }
  TemporaryFolder folder_;
};

TEST_F(SmallValuesTest, EvaluatesAMaskOfPositions) {
  EXPECT_EQ(
      numbers(R"(<int64 axis = {1}, int64[1] axes = {1}, int64[1] last = {2}, float zero = {0}, float low = {-9}> {
  counts = CumSum(x, axis)
  rows = Unsqueeze(counts, last)
  columns = Unsqueeze(counts, axes)
  seen = GreaterOrEqual(rows, columns)
  y = Where(seen, zero, low)
})"),
      (std::vector<double>{0, -9, -9, 0, 0, 0, 0, 0, 0}));
}

TEST_F(SmallValuesTest, ReadsTensorsInAttributes) {
  EXPECT_EQ(numbers(R"({
  size = Shape<start = 1>(x)
  y = ConstantOfShape<value = float[1] {7}>(size)
})"),
            (std::vector<double>{7, 7, 7}));
}

TEST_F(SmallValuesTest, KnowsNoValueOfOtherInputs) { EXPECT_TRUE(numbers("{ y = Neg(z) }").empty()); }

}  // namespace
}  // namespace whence::comparison
