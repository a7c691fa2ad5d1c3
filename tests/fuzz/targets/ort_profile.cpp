// ONNX Runtime's profile of a run of the good model, in every form that `whence profile` prints.
#include "annotator/profile/profile_reader.h"

#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string path = file_of("profile.json", input);
  profile::read_runtime_profile({path}, {});
  for (const char* format : {"text", "json", "collapsed", "speedscope"}) {
    attempt([&] { run_command({"profile", good_model().model, "--profile", path, "--format", format}); });
  }
}

const Target target("ort_profile", run, 8192, mutate_json);

}  // namespace
}  // namespace whence::fuzz
