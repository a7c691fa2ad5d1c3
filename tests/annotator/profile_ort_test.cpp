// ONNX Runtime's profile: runs, warm-up, operators in bodies, memory.
#include <fstream>

#include <gtest/gtest.h>

#include "annotator/profile/profile_reader.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence::profile {
namespace {

std::string run(int start, int duration) {
  return R"({"cat":"Session","pid":1,"tid":1,"dur":)" + std::to_string(duration) + R"(,"ts":)" + std::to_string(start) +
         R"(,"ph":"X","name":"model_run","args":{}})";
}

std::string kernel(const std::string& name, const std::string& op_type, int start, int duration, int thread = 1,
                   const std::string& extra = "") {
  return R"({"cat":"Node","pid":1,"tid":)" + std::to_string(thread) + R"(,"dur":)" + std::to_string(duration) +
         R"(,"ts":)" + std::to_string(start) + R"(,"ph":"X","name":")" + name + R"(_kernel_time","args":{"op_name":")" +
         op_type + R"(","provider":"CPUExecutionProvider")" + extra + "}}";
}

class OrtProfile : public ::testing::Test {
 protected:
  RuntimeProfile read(const std::vector<std::string>& events, const ReadOptions& options = {}) {
    std::ofstream file(folder_ / "p.json");
    file << "[";
    for (std::size_t i = 0; i < events.size(); ++i) file << (i == 0 ? "" : ",\n") << events[i];
    file << "]";
    file.close();
    return read_runtime_profile({folder_ / "p.json"}, options);
  }

  TemporaryFolder folder_;
};

TEST_F(OrtProfile, TheFirstOfSeveralRunsIsWarmUp) {
  const RuntimeProfile profile = read({kernel("a", "MatMul", 10, 50), kernel("b", "Relu", 70, 5), run(0, 90),
                                       kernel("a", "MatMul", 110, 30), kernel("b", "Relu", 150, 4), run(100, 60),
                                       kernel("a", "MatMul", 210, 32), kernel("b", "Relu", 250, 2), run(200, 60)});
  EXPECT_EQ(profile.runs, 2);
  EXPECT_EQ(profile.warmup_runs, 1);
  EXPECT_EQ(profile.run_amount, 120);
  ASSERT_EQ(profile.layers.size(), 2u);
  EXPECT_EQ(profile.layers[0].name, "a");
  EXPECT_EQ(profile.layers[0].op_type, "MatMul");
  EXPECT_EQ(profile.layers[0].amount, 62);
  EXPECT_EQ(profile.layers[0].count, 2);
  EXPECT_EQ(profile.layers[1].amount, 6);
}

TEST_F(OrtProfile, ExcludesTheRequestedWarmUpRuns) {
  const std::vector<std::string> events = {kernel("a", "MatMul", 10, 50), run(0, 90), kernel("a", "MatMul", 110, 30),
                                           run(100, 60)};
  EXPECT_EQ(read(events, {.warmup_runs = 0}).layers[0].amount, 80);
  EXPECT_EQ(read(events, {.warmup_runs = 0}).runs, 2);
  expect_error(Code::usage, [&] { read(events, {.warmup_runs = 2}); });
  EXPECT_EQ(read({kernel("a", "MatMul", 10, 50), run(0, 90)}).layers[0].amount, 50);  // a single run is measured
}

TEST_F(OrtProfile, BodyTimeIsSubtractedFromTheOperator) {
  for (const char* const outer : {"If", "Loop", "Scan"}) {
    const RuntimeProfile profile =
        read({kernel("branch", outer, 10, 50), kernel("inner", "Relu", 20, 15), kernel("other", "Relu", 20, 15, 2),
              kernel("next", "Relu", 70, 5), run(0, 90)});
    std::map<std::string, std::int64_t> amounts;
    for (const Layer& layer : profile.layers) amounts[layer.name] = layer.amount;
    EXPECT_EQ(amounts["branch"], 35) << outer;  // time on another thread is not subtracted
    EXPECT_EQ(amounts["inner"], 15);
    EXPECT_EQ(amounts["next"], 5);
  }
  // Nothing is subtracted from an operator without bodies.
  EXPECT_EQ(read({kernel("a", "MatMul", 10, 50), kernel("b", "Relu", 20, 15), run(0, 90)}).layers[0].amount, 50);
}

TEST_F(OrtProfile, MemoryIsTheLargestOfAllRuns) {
  const auto memory = [](int in, int out, int peak) {
    return R"(,"activation_size":")" + std::to_string(in) + R"(","parameter_size":"7","output_size":")" +
           std::to_string(out) + R"(","mem_bytes_in_use":"100","mem_in_use_peak":")" + std::to_string(peak) + "\"";
  };
  const RuntimeProfile profile = read({kernel("a", "MatMul", 10, 5, 1, memory(4, 8, 300)), run(0, 90),
                                       kernel("a", "MatMul", 110, 5, 1, memory(6, 2, 300)), run(100, 60)});
  const LayerMemory layer = profile.layers[0].memory.value();
  EXPECT_EQ(layer.inputs, 6);
  EXPECT_EQ(layer.outputs, 8);
  EXPECT_EQ(layer.parameters, 7);
  EXPECT_EQ(layer.peak, 300);
}

TEST_F(OrtProfile, RefusesIncompleteFiles) {
  expect_error(Code::corrupt_file, [&] { read({R"({"cat":"Node","name":"a_kernel_time","args":{}})", run(0, 90)}); });
  expect_error(Code::wrong_kind, [&] { read({"1"}); });
  std::ofstream(folder_ / "q.json") << "[{";
  EXPECT_THROW(read_runtime_profile({folder_ / "q.json"}, {}), Error);
}

}  // namespace
}  // namespace whence::profile
