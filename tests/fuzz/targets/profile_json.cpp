// A profile of a run of the good model as JSON, from ONNX Runtime or TensorRT, in every form that `whence profile`
// prints; and what TensorRT and QNN write beside a profile.
#include "annotator/profile/profile_reader.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

// A profile to which layer information of the input may belong, under the names that seeds use.
constexpr std::string_view tensorrt_profile = R"([{"count": 2}, {"name": "layer0", "timeMs": 1.5}])";
constexpr std::string_view qnn_profile =
    "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n"
    "0,NODE,5,US,BACKEND,SUB-EVENT,layer0:OpId_1 (us)\n";

void run(std::string_view input) {
  const std::string path = file_of("profile.json", input);
  for (const char* format : {"text", "json", "collapsed", "speedscope"}) {
    attempt([&] { run_command({"profile", good_model().model, "--profile", path, "--format", format}); });
  }
  attempt([&] { run_command({"profile", good_model().model, "--profile", path, "--trace", scratch("trace.json")}); });
  attempt([&] { run_command({"profile", good_model().model, "--profile", path, "--against", path}); });
  for (const std::string_view profile : {tensorrt_profile, qnn_profile}) {
    const std::string times = file_of("times", profile);
    attempt([&] { run_command({"profile", good_model().model, "--profile", times, "--profile", path}); });
  }
  profile::read_runtime_profile({path}, {});
}

const Target target("profile_json", run, 8192, mutate_json);

}  // namespace
}  // namespace whence::fuzz
