// Reads and rewrites sidecars, shows them, and annotates and validates a file with them.
#include "schema/sidecar/sidecar.h"

#include "schema/json_text.h"
#include "schema/sidecar/program_reader.h"
#include "schema/sidecar/row_reader.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

// Sets the digest of the operations, because a sidecar with a wrong digest is refused.
std::string with_right_digest(std::string_view input) {
  Json document = Json::parse(input, nullptr, /*allow_exceptions=*/false);
  const bool has_strings = document.is_object() && document.contains("strings") && document["strings"].is_array();
  if (!has_strings) return std::string(input);
  SidecarText text{"fuzzed.whence.json", {}};
  for (const Json& each : document["strings"]) text.strings.push_back(each.is_string() ? each.get<std::string>() : "");
  const std::string written = json_text(document);
  if (const auto read = JsonDocument::parse(written)) {
    document["program_digest"] = program_digest(read_program(read->root(), text));
  }
  return json_text(document);
}

void require_stable_round_trip(const std::string& document) {
  const std::string text = to_json_text(value_of(parse_sidecar(document, "fuzzed.whence.json")));
  require(to_json_text(value_of(parse_sidecar(text, "again"))) == text, "a sidecar changed when it was written");
}

void run(std::string_view input) {
  const auto right_file = [&] { return file_of("fuzzed.whence.json", with_right_digest(input)); };
  const ValidModel& valid = valid_model();
  attempt_each(input, {
                          [&] { value_of(parse_sidecar(input, "fuzzed.whence.json")); },
                          [&] { require_stable_round_trip(with_right_digest(input)); },
                          [&] { run_command({"show", right_file()}); },
                          [&] { run_command({"validate", valid.model, "--sidecar", right_file(), "--json"}); },
                          [&] {
                            annotate(valid.model, scratch("output.onnx"),
                                     {.sidecar = right_file(), .allow_different_weights = true});
                          },
                      });
}

const Target target("sidecar", run, 16384, mutate_json);

}  // namespace
}  // namespace whence::fuzz
