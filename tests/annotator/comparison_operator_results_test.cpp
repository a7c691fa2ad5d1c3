// Tests the results of single nodes against those of ONNX Runtime.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "annotator/comparison/operator_results.h"
#include "annotator/comparison/small_values.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/program/tensor_values.h"
#include "tests/annotator/parsed_model.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::FileTensor;
using derivation::FileTensors;

namespace {

class OperatorResultsTest : public ::testing::Test {
 protected:
  // Returns the numbers of y, which one node computes from x and from these initializers; {} if they are unknown.
  std::vector<double> numbers(const std::string& initializers, const std::string& node) {
    const std::string x = "float[1,2,3,2] x = {-1.5, 0.25, 2, -0.5, 1, 3, 0.5, -2, 1.25, 0, -0.75, 4}";
    const auto model =
        summary_of(parse_model("<ir_version: 10, opset_import: [\"\": 21]>\nagraph () => (float y) <" + x +
                               (initializers.empty() ? "" : ", ") + initializers + "> { " + node + " }"),
                   folder_);
    const FileTensors tensors(model);
    Contents contents(model.file->path(), model.file);
    std::map<std::string_view, TensorData> values;
    for (const FileTensor& tensor : tensors.all()) values.emplace(tensor.name, contents.data(tensor));
    const onnx_file::OnnxNode& read = model.graph.nodes.at(0);
    simplify::Constants inputs;
    for (const std::string_view input : read.inputs) inputs.push_back(input.empty() ? nullptr : &values.at(input));
    const auto results = results_of(graph_node_of(read, contents), inputs);
    std::vector<double> found;
    for (std::size_t i = 0; results && i < results->size(); ++i) {
      const auto elements = program::Elements::of((*results)[i]);
      for (std::size_t k = 0; read.outputs[i] == "y" && elements && k < elements->size(); ++k)
        found.push_back(elements->number(k));
    }
    return found;
  }
  TemporaryFolder folder_;
};

struct Case {
  std::string initializers, node;
  std::vector<double> expected;
};

TEST_F(OperatorResultsTest, HasTheNumbersOfOnnxRuntime) {
  const std::vector<Case> cases = {
      {"",
       "y = HardSwish(x)",
       {-0.375, 0.13542, 1.66667, -0.20833, 0.66667, 3.0, 0.29167, -0.33333, 0.88542, 0.0, -0.28125, 4.0}},
      {"",
       "y = Selu(x)",
       {-1.36581, 0.26268, 2.1014, -0.69176, 1.0507, 3.1521, 0.52535, -1.52017, 1.31338, 0.0, -0.92763, 4.2028}},
      {"",
       "y = Gelu(x)",
       {-0.10021, 0.14968, 1.9545, -0.15427, 0.84134, 2.99595, 0.34573, -0.0455, 1.11794, 0.0, -0.16997, 3.99987}},
      {"",
       "y = Gelu<approximate = \"tanh\">(x)",
       {-0.10043, 0.14968, 1.9546, -0.15429, 0.84119, 2.99636, 0.34571, -0.0454, 1.11771, 0.0, -0.17004, 3.99993}},
      {"", "y = LeakyRelu<alpha = 0.3>(x)", {-0.45, 0.25, 2.0, -0.15, 1.0, 3.0, 0.5, -0.6, 1.25, 0.0, -0.225, 4.0}},
      {"",
       "y = HardSigmoid<alpha = 0.25, beta = 0.25>(x)",
       {0.0, 0.3125, 0.75, 0.125, 0.5, 1.0, 0.375, 0.0, 0.5625, 0.25, 0.0625, 1.0}},
      {"float[2,1,1] s = {0.5, 0.25}",
       "y = PRelu(x, s)",
       {-0.75, 0.25, 2.0, -0.25, 1.0, 3.0, 0.5, -0.5, 1.25, 0.0, -0.1875, 4.0}},
      {"float[2] s = {2, 0.5}, float[2] b = {1, -1}",
       "y = LayerNormalization<epsilon = 0.01>(x, s, b)",
       {-0.98707, -0.50323, 2.99363, -1.49841, -0.99007, -0.50248, 2.99363, -1.49841, 2.97488, -1.49372, -0.99823,
        -0.50044}},
      {"float[3,2] s = {1, 2, 3, 4, 5, 6}",
       "y = LayerNormalization<axis = 2>(x, s)",
       {-1.46939, -0.60993, 2.57836, -3.21602, 0.97035, 9.14901, 0.0, -2.6806, 1.20627, -1.07224, -3.35075, 11.25851}},
      {"float[2] s = {2, 0.5}, float[2] b = {1, -1}",
       "y = GroupNormalization<num_groups = 1>(x, s, b)",
       {-1.47988, 0.58259, 2.64507, -0.30132, 1.46651, 3.82362, -1.03069, -1.76729, -0.80971, -1.17801, -1.39899,
        0.00054}},
      {"float[2] s = {2, 0.5}, float[2] b = {1, -1}",
       "y = InstanceNormalization(x, s, b)",
       {-1.93877, 0.39007, 2.71891, -0.60801, 1.38814, 4.04967, -1.0, -1.67015, -0.79896, -1.13403, -1.33507,
        -0.06179}},
      {"float[2] s = {2, 0.5}, float[2] b = {1, -1}, float[2] m = {0.5, 1}, float[2] v = {4, 9}",
       "y = BatchNormalization(x, s, b, m, v)",
       {-1.0, 0.75, 2.5, 0.0, 1.5, 3.5, -1.08333, -1.5, -0.95833, -1.16667, -1.29167, -0.5}},
      {"",
       "y = MaxPool<kernel_shape = [2, 2], strides = [2, 1], pads = [0, 1, 0, 0], ceil_mode = 1>(x)",
       {2.0, 2.0, 1.0, 3.0, 1.25, 1.25, -0.75, 4.0}},
      {"",
       "y = AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(x)",
       {-0.625, 0.25, 0.0625, -0.125, 1.375, 1.25, -0.75, -2.0, -0.0625, -1.0, 1.125, 2.0}},
      {"",
       "y = AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1], count_include_pad = 1>(x)",
       {-0.3125, 0.0625, 0.0625, -0.0625, 1.375, 0.625, -0.375, -0.5, -0.0625, -0.5, 1.125, 1.0}},
      {"", "y = GlobalAveragePool(x)", {0.70833, 0.5}},
      {"float[4] s = {1, 1, 2, 1}",
       "y = Resize<mode = \"linear\">(x, , s)",
       {-1.5, 0.25, -0.625, 0.0625, 1.125,  -0.3125, 1.75, 0.375, 1.25,  2.125, 1.0,   3.0,
        0.5,  -2.0, 0.6875, -1.5,   1.0625, -0.5,    0.75, 1.0,   -0.25, 3.0,   -0.75, 4.0}},
      {"int64[4] s = {1, 2, 2, 3}",
       "y = Resize<mode = \"linear\", coordinate_transformation_mode = \"align_corners\">(x, , , s)",
       {-1.5, -0.625, 0.25, 1.0, 2.0, 3.0, 0.5, -0.75, -2.0, -0.75, 1.625, 4.0}},
      {"float[4] s = {1, 1, 2, 1}",
       "y = Resize<nearest_mode = \"floor\">(x, , s)",
       {-1.5, 0.25, -1.5, 0.25, -1.5, 0.25, 2.0,  -0.5, 2.0,  -0.5, 1.0,   3.0,
        0.5,  -2.0, 0.5,  -2.0, 0.5,  -2.0, 1.25, 0.0,  1.25, 0.0,  -0.75, 4.0}},
      {"int64[8] p = {0, 0, 1, 0, 0, 0, 2, 1}",
       "y = Pad<mode = \"reflect\">(x, p)",
       {2.0,  -0.5, 2.0,  -1.5, 0.25, -1.5, 2.0,  -0.5, 2.0,  1.0,   3.0, 1.0,   2.0,  -0.5, 2.0,  -1.5, 0.25, -1.5,
        1.25, 0.0,  1.25, 0.5,  -2.0, 0.5,  1.25, 0.0,  1.25, -0.75, 4.0, -0.75, 1.25, 0.0,  1.25, 0.5,  -2.0, 0.5}},
      {"int64[8] p = {0, 0, 1, 0, 0, 0, 2, 1}",
       "y = Pad<mode = \"edge\">(x, p)",
       {-1.5, 0.25, 0.25, -1.5, 0.25, 0.25, 2.0,  -0.5, -0.5, 1.0,   3.0, 3.0, 1.0,   3.0, 3.0, 1.0,   3.0, 3.0,
        0.5,  -2.0, -2.0, 0.5,  -2.0, -2.0, 1.25, 0.0,  0.0,  -0.75, 4.0, 4.0, -0.75, 4.0, 4.0, -0.75, 4.0, 4.0}},
      {"int64[2] p = {1, 2}", "z, y = Split<axis = 2>(x, p)", {2.0, -0.5, 1.0, 3.0, 1.25, 0.0, -0.75, 4.0}},
      {"", "z, y = Split<axis = -1, num_outputs = 2>(x)", {0.25, -0.5, 3.0, -2.0, 0.0, 4.0}},
      {"int64[1] k = {2}", "y, z = TopK<axis = 2>(x, k)", {2.0, 3.0, 1.0, 0.25, 1.25, 4.0, 0.5, 0.0}},
      {"int64[1] k = {2}", "z, y = TopK<axis = 2, largest = 0>(x, k)", {0.0, 1.0, 2.0, 0.0, 2.0, 0.0, 0.0, 1.0}},
      {"", "y = ArgMax<axis = 2, keepdims = 0>(x)", {1.0, 2.0, 1.0, 2.0}},
      {"int64[1,2,1,2] i = {2, 0, 1, 1}, float[1,2,1,2] u = {10, 20, 30, 40}",
       "y = ScatterElements<axis = 2>(x, i, u)",
       {-1.5, 20.0, 2.0, -0.5, 10.0, 3.0, 0.5, -2.0, 30.0, 40.0, -0.75, 4.0}},
      {"int8[2,2] q = {1, -2, 3, 4}, float[2] s = {0.5, 0.25}, int8[2] o = {1, 0}",
       "y = DequantizeLinear<axis = 1>(q, s, o)",
       {0.0, -0.5, 1.0, 1.0}},
      {"", "y = Flatten<axis = 2>(x)", {-1.5, 0.25, 2.0, -0.5, 1.0, 3.0, 0.5, -2.0, 1.25, 0.0, -0.75, 4.0}},
  };
  for (const Case& each : cases) {
    const std::vector<double> found = numbers(each.initializers, each.node);
    ASSERT_EQ(found.size(), each.expected.size()) << each.node;
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], each.expected[i], 2e-5) << each.node;
  }
}

TEST_F(OperatorResultsTest, RefusesSettingsThatItDoesNotKnow) {
  EXPECT_TRUE(numbers("", R"(y = MaxPool<kernel_shape = [2, 2], auto_pad = "SAME_UPPER">(x))").empty());
  EXPECT_TRUE(numbers("float[4] s = {1, 1, 2, 1}", R"(y = Resize<mode = "cubic">(x, , s))").empty());
  EXPECT_TRUE(numbers("float[3] s = {1, 2, 3}", "y = LayerNormalization(x, s)").empty());
  EXPECT_TRUE(numbers("int64[1] k = {4}", "y, z = TopK<axis = 2>(x, k)").empty());
}

}  // namespace
}  // namespace whence::comparison
