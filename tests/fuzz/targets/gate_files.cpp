// Reads the files of `whence validate --config` and `--baseline`.
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const std::string path = file_of("gates.json", input);
  const std::string& model = valid_model().model;
  attempt_each(input, {
                          [&] { run_command({"validate", model, "--config", path}); },
                          [&] { run_command({"validate", model, "--baseline", path, "--json"}); },
                      });
}

const Target target("gate_files", run, 4096, mutate_json);

}  // namespace
}  // namespace whence::fuzz
