// Reads a JSON profile of the valid model from ONNX Runtime or TensorRT with every output format of `whence profile`,
// and the additional files of ONNX Runtime, TensorRT and QNN.
#include "annotator/profile/profile_reader.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

// A profile with the layer names of the seeds, so that layer information in the input can match it.
constexpr std::string_view tensorrt_profile = R"([{"count": 2}, {"name": "layer0", "timeMs": 1.5}])";
constexpr std::string_view qnn_profile =
    "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n"
    "0,NODE,5,US,BACKEND,SUB-EVENT,layer0:OpId_1 (us)\n";

constexpr std::string_view ort_profile =
    R"([{"cat": "Session", "name": "model_run", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
        {"cat": "Node", "name": "Mine_sub_0_0_kernel_time", "pid": 1, "tid": 1, "ts": 1, "dur": 5,
         "args": {"op_name": "sub_0", "provider": "Mine"}}])";

void run(std::string_view input) {
  const std::string path = file_of("profile.json", input), trace = scratch("trace.json");
  const std::vector<std::vector<std::string>> options = {
      {"--profile", path, "--format", "text"},
      {"--profile", path, "--format", "json"},
      {"--profile", path, "--format", "collapsed"},
      {"--profile", path, "--format", "speedscope"},
      {"--profile", path, "--trace", trace},
      {"--profile", path, "--against", path},
      {"--profile", file_of("tensorrt", tensorrt_profile), "--profile", path},
      {"--profile", file_of("qnn", qnn_profile), "--profile", path},
      {"--profile", file_of("ort", ort_profile), "--profile", path},
  };
  std::vector<std::function<void()>> parts = {[&] { profile::read_runtime_profile({path}, {}); }};
  for (const std::vector<std::string>& each : options) {
    parts.emplace_back([&] {
      std::vector<std::string> line = {"profile", valid_model().model};
      line.insert(line.end(), each.begin(), each.end());
      run_command(line);
    });
  }
  attempt_each(input, parts);
}

const Target target("profile_json", run, 8192, mutate_json);

}  // namespace
}  // namespace whence::fuzz
