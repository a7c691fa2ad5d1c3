// Tests input specifications and dynamic axes: each row is a text and its meaning or its error.
#include "annotator/app/input_spec.h"

#include <gtest/gtest.h>

namespace whence::app {
namespace {

struct SpecRow {
  const char* text;
  const char* name;
  DType dtype;
  std::vector<std::int64_t> dims;
  std::optional<double> low, high;
};

TEST(InputSpec, ReadsTheCommandLineSyntax) {
  const SpecRow rows[] = {
      {"input_ids=int64[1,16]<30522", "input_ids", DType::int64, {1, 16}, {}, 30522.0},
      {"x=float32[2,3]>=0<1", "x", DType::float32, {2, 3}, 0.0, 1.0},
      {"x=float32[2]>=-1.5<1e3", "x", DType::float32, {2}, -1.5, 1000.0},
      {"past.0.key=float16[1,2,0,64]", "past.0.key", DType::float16, {1, 2, 0, 64}, {}, {}},
      {"float32[1,3,224,224]", "", DType::float32, {1, 3, 224, 224}, {}, {}},
      {"int64[4]>=2<9", "", DType::int64, {4}, 2.0, 9.0},
      {"flag=bool[]", "flag", DType::boolean, {}, {}, {}},
  };
  for (const SpecRow& row : rows) {
    const InputSpec spec = parse_input_spec(row.text);
    EXPECT_EQ(spec.name, row.name) << row.text;
    EXPECT_EQ(spec.dtype, row.dtype) << row.text;
    EXPECT_EQ(spec.dims, row.dims) << row.text;
    EXPECT_EQ(spec.low, row.low) << row.text;
    EXPECT_EQ(spec.high, row.high) << row.text;
  }
}

// Expects an error whose message contains `piece` and whose remedy contains `remedy`.
template <class Parse>
void expect_refused(const std::string& text, const std::string& piece, const std::string& remedy, Parse parse) {
  try {
    parse(text);
    ADD_FAILURE() << text << " was accepted";
  } catch (const Error& error) {
    const Diagnostic& diagnostic = error.diagnostics().front();
    EXPECT_EQ(diagnostic.code, Code::bad_input_spec);
    EXPECT_NE(diagnostic.message.find(piece), std::string::npos) << diagnostic.message;
    EXPECT_NE(diagnostic.remedy.find(remedy), std::string::npos) << diagnostic.remedy;
  }
}

TEST(InputSpec, ReportsTheInvalidPart) {
  const char* rows[][3] = {
      {"x", "no shape", "int64[1,16]"},
      {"x=float32", "no shape", "int64[1,16]"},
      {"x=float32]2[", "no shape", "int64[1,16]"},
      {"=float32[2]", "no name", "input_ids=int64"},
      {"x=flaot32[2]", "unknown dtype 'flaot32'", "did you mean float32?"},
      {"x=float32[2,-1]", "'-1' is not a size", "--dynamic"},
      {"x=float32[batch,3]", "'batch' is not a size", "--dynamic"},
      {"x=float32[2,]", "'' is not a size", "whole numbers"},
      {"x=float32[2]<", "not an upper bound", "int64[1,16]"},
      {"x=float32[2]>=a", "not a lower bound", "int64[1,16]"},
      {"x=float32[2]>=3<2", "range is empty", ">=LOW"},
      {"x=float32[2]<2 ", "not an upper bound", "int64[1,16]"},
      {"x=float32[2]x", "'x' is unexpected", "int64[1,16]"},
  };
  for (const auto& row : rows) expect_refused(row[0], row[1], row[2], parse_input_spec);
}

TEST(DynamicAxes, ReadsTheCommandLineSyntax) {
  const std::vector<DynamicAxis> axes = parse_dynamic("input_ids:0=batch,1=seq");
  ASSERT_EQ(axes.size(), 2U);
  EXPECT_EQ(axes[0].input, "input_ids");
  EXPECT_EQ(axes[0].axis, 0);
  EXPECT_EQ(axes[0].symbol, "batch");
  EXPECT_EQ(axes[1].axis, 1);
  EXPECT_EQ(axes[1].symbol, "seq");
}

TEST(DynamicAxes, NamesAxesAsPyTorchDoes) {
  const std::vector<DynamicAxis> axes = parse_dynamic("x:2,0=batch,1");
  ASSERT_EQ(axes.size(), 3U);
  EXPECT_EQ(axes[0].symbol, "x_dynamic_axes_1");
  EXPECT_EQ(axes[1].symbol, "batch");
  EXPECT_EQ(axes[2].symbol, "x_dynamic_axes_3");
}

TEST(DynamicAxes, ReadsSeveralInputs) {
  const std::vector<DynamicAxis> axes = parse_dynamic("x:0=batch,1=seq,x:2=h,net:y.0:-1");
  ASSERT_EQ(axes.size(), 4U);
  EXPECT_EQ(axes[1].input, "x");
  EXPECT_EQ(axes[1].symbol, "seq");
  EXPECT_EQ(axes[2].input, "x");
  EXPECT_EQ(axes[2].axis, 2);
  EXPECT_EQ(axes[3].input, "net:y.0");
  EXPECT_EQ(axes[3].axis, -1);
}

TEST(DynamicAxes, ReportsTheInvalidPart) {
  const char* rows[][2] = {
      {"0=batch", "no input name"},
      {":0=batch", "no input name"},
      {"x:", "no axis"},
      {"x:batch", "no axis number"},
      {"x:-=batch", "no axis number"},
      {"x:0=", "no name for the size"},
      {"x:0=2", "no name for the size"},
      {"x:0=''", "no name for the size"},
      {"x:0='a'b'", "no name for the size"},
      {"x:0=a,0=b", "axis 0 is named twice"},
      {"x:-1=a,-1=b", "axis -1 is named twice"},
      {"x:0=a,y:b", "'b' has no axis number"},
      {"x:0=a,:1=b", "no input name"},
  };
  for (const auto& row : rows) expect_refused(row[0], row[1], "input_ids:0=batch", parse_dynamic);
}

}  // namespace
}  // namespace whence::app
