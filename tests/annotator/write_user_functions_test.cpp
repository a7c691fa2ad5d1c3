// User functions: the operators that they convert, and the opsets at which exports can use them.
#include "annotator/write/user_functions.h"
#include "tests/annotator/parsed_model.h"
#include "tests/schema/expect_error.h"

namespace whence {

using write::UserFunctions;

namespace {

// Writes a function whence.mylib.op with these nodes at opset `from`, reads it for an export at opset `to`, and returns
// the opset of the function after reading.
std::int64_t opset_after(const std::string& nodes, int from, int to) {
  const TemporaryFolder folder;
  const onnx::ModelProto model = parse_model(
      "<ir_version: 10, opset_import: [\"\" : 20, \"whence.mylib\" : 1]> g (float[4] x) => (float[4] y) { y = "
      "whence.mylib.op (x) } "
      "<opset_import: [\"\" : " +
      std::to_string(from) + ", \"whence.mylib\" : 1], domain: \"whence.mylib\"> op (a) => (b) { " + nodes + " }");
  std::ofstream(folder / "f.onnx", std::ios::binary) << model.SerializeAsString();
  const auto functions = UserFunctions::read(folder / "f.onnx", to);
  EXPECT_EQ(functions->operators(), std::set<std::string>{"mylib::op"});
  return functions->find("whence.mylib", "op")->opset_import(0).version();
}

TEST(UserFunctions, UseTheOpsetOfTheExportIfNoNodeChangesMeaning) {
  EXPECT_EQ(opset_after("b = Neg (a)", 13, 18), 18);
  EXPECT_EQ(opset_after("b = Neg (a)", 18, 18), 18);
  EXPECT_EQ(opset_after("b = ReduceMean <axes = [0]> (a)", 13, 18), 13);  // the axes became an input in 18
  EXPECT_EQ(opset_after("b, c = Split (a)", 13, 18), 13);                 // num_outputs became required in 18
  EXPECT_EQ(opset_after("n = Constant <value = int64[2] {2, 2}> () b, c = Split (a, n)", 13, 18), 18);
  EXPECT_EQ(opset_after("b = Softmax (a)", 11, 18), 11);  // normalises over one axis from 13 on
}

TEST(UserFunctions, AreRefusedIfUnusable) {
  expect_error(Code::converter_refused, [] { opset_after("b = Neg (a)", 20, 18); });
  expect_error(Code::corrupt_file, [] { opset_after("b = whence.mylib.op (a)", 18, 18); });
  const TemporaryFolder folder;
  std::ofstream(folder / "f.onnx", std::ios::binary)
      << parse_model("<ir_version: 10, opset_import: [\"\" : 20]> g (float[4] x) => (float[4] y) { y = Neg (x) }")
             .SerializeAsString();
  expect_error(Code::wrong_kind, [&] { UserFunctions::read(folder / "f.onnx", 18); });
}

}  // namespace
}  // namespace whence
