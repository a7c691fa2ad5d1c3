// Reads measurements of a file: the JSON of profile, accuracy and sensitivity.
#include <cmath>

#include <gtest/gtest.h>

#include "annotator/report/figures.h"
#include "schema/result.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

class FiguresTest : public ::testing::Test {
 protected:
  report::Figures read(const std::string& json) {
    std::ofstream(folder_ / "figures.json") << json;
    return report::read_figures(folder_ / "figures.json");
  }
  Code error_of(const std::string& json) {
    try {
      read(json);
    } catch (const Error& error) {
      return error.diagnostics().front().code;
    }
    return Code::internal;
  }

  TemporaryFolder folder_;
};

TEST_F(FiguresTest, AProfileGivesTheTimeOfOneRun) {
  const report::Figures figures = read(R"({"file": "m.onnx", "unit": "microseconds", "runs": 4, "operator_time": 12000,
    "unattributed": 400, "modules": [{"path": "", "total": 8000, "at_most": 8000},
    {"path": "a.b", "total": 2000, "at_most": 6000}]})");
  EXPECT_EQ(figures.kind, "profile");
  EXPECT_EQ(figures.model, "m.onnx");
  ASSERT_EQ(figures.measures.size(), 1u);
  EXPECT_EQ(figures.measures[0].unit, "ms");
  EXPECT_DOUBLE_EQ(figures.measures[0].values.at(""), 2);
  EXPECT_DOUBLE_EQ(figures.measures[0].values.at("a.b"), 0.5);
  EXPECT_EQ(figures.remarks.at("a.b"), "at most 1.5 ms");
  EXPECT_FALSE(figures.remarks.contains(""));
}

TEST_F(FiguresTest, BytesAreNoTime) {
  const report::Figures figures = read(R"({"file": "m.onnx", "unit": "bytes", "runs": 1, "operator_time": 12,
    "unattributed": 0, "modules": [{"path": "a", "total": 12}]})");
  EXPECT_EQ(figures.measures[0].unit, "B");
  EXPECT_DOUBLE_EQ(figures.measures[0].values.at("a"), 12);
}

TEST_F(FiguresTest, AModuleHasTheErrorOfItsWorstCall) {
  const report::Figures figures = read(R"({"model": "m.onnx", "settings": "ONNX Runtime", "tolerance": 0.01,
    "observable": 3, "first": {"module": "a"}, "modules": [
    {"module": "a", "status": "equal", "relative": 0.001, "sqnr_db": 60},
    {"module": "a", "status": "differs", "relative": 0.1, "sqnr_db": 20},
    {"module": "a", "status": "equal", "relative": 0.002, "sqnr_db": 54},
    {"module": "b", "status": "differs", "relative": null, "sqnr_db": null},
    {"module": "c", "status": "not observable", "note": "fused"}]})");
  EXPECT_DOUBLE_EQ(figures.measures[0].values.at("a"), 0.1);
  EXPECT_DOUBLE_EQ(figures.measures[1].values.at("a"), 20);
  EXPECT_EQ(figures.remarks.at("a"), "differs");
  EXPECT_TRUE(std::isinf(figures.measures[0].values.at("b")));
  EXPECT_LT(figures.measures[1].values.at("b"), 0);  // an infinite error has a signal-to-noise ratio of -infinity
  EXPECT_FALSE(figures.measures[0].values.contains("c"));
  EXPECT_EQ(figures.remarks.at("c"), "not observable");
  EXPECT_EQ(figures.summary.back(), "first module that differs: a");
}

TEST_F(FiguresTest, ASensitivityGivesErrorSavingsAndTime) {
  const report::Figures figures = read(R"({"model": "m.onnx", "quantiser": "qdq", "left_out": false, "size": 100,
    "together": {"error": 0.2, "size": 40}, "choice": {"budget": "error=0.1", "excluded": ["b"]}, "modules": [
    {"module": "a", "nodes": 1, "status": "measured", "error": 0.05, "saved": 30, "time_saved": 0.25, "note": "",
     "sqnr_db": 26}, {"module": "b", "status": "failed", "error": null, "saved": 0, "time_saved": null}]})");
  ASSERT_EQ(figures.measures.size(), 3u);
  EXPECT_DOUBLE_EQ(figures.measures[0].values.at("a"), 0.05);
  EXPECT_DOUBLE_EQ(figures.measures[1].values.at("a"), 30);
  EXPECT_DOUBLE_EQ(figures.measures[2].values.at("a"), -25);  // a quarter less time
  EXPECT_EQ(figures.remarks.at("b"), "unquantised in the choice");
}

TEST_F(FiguresTest, OtherFilesAreRefused) {
  for (const char* json :
       {"no JSON", "[]", "{}", R"({"operator_time": 1})", R"({"observable": 1, "model": "m", "modules": {}})",
        R"({"observable": 1, "model": "m", "modules": [3]})",
        R"({"observable": 1, "model": "m", "modules": [{"module": "a", "status": "equal", "relative": "x"}]})",
        R"({"quantiser": "qdq", "model": 5})"}) {
    EXPECT_EQ(error_of(json), Code::wrong_kind) << json;
  }
}

}  // namespace
}  // namespace whence
