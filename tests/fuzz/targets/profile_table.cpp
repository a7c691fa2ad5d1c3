// Reads a profile of the valid model in formats other than JSON: OpenVINO's runtime model in XML, and tables of
// OpenVINO, ONNX Runtime and QNN.
#include "annotator/profile/profile_reader.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string path = file_of("profile", input);
  const std::string& model = valid_model().model;
  attempt_each(input, {
                          [&] { run_command({"profile", model, "--profile", path}); },
                          [&] { run_command({"profile", model, "--profile", path, "--format", "json"}); },
                          [&] { run_command({"profile", model, "--profile", path, "--trace", scratch("trace.json")}); },
                          [&] { profile::read_runtime_profile({path}, {}); },
                      });
}

const Target target("profile_table", run, 8192);

}  // namespace
}  // namespace whence::fuzz
