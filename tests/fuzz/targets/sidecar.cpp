// Sidecars: what is read is written back as it was, can be looked at, and serves for annotating and validating a file.
#include "schema/sidecar/sidecar.h"

#include "schema/json_text.h"
#include "schema/sidecar/program_reader.h"
#include "schema/sidecar/row_reader.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

// With the digest that belongs to the operations, without which everything else would be refused at the end.
std::string with_right_digest(std::string_view input) {
  Json document = Json::parse(input, nullptr, /*allow_exceptions=*/false);
  const bool has_strings = document.is_object() && document.contains("strings") && document["strings"].is_array();
  if (!has_strings) return std::string(input);
  SidecarText text{"fuzzed.whence.json", {}};
  for (const Json& each : document["strings"]) text.strings.push_back(each.is_string() ? each.get<std::string>() : "");
  document["program_digest"] = program_digest(read_program(document, text));
  return json_text(document);
}

void run(std::string_view input) {
  attempt([&] { value_of(parse_sidecar(input, "fuzzed.whence.json")); });
  const std::string right = with_right_digest(input);
  const Sidecar sidecar = value_of(parse_sidecar(right, "fuzzed.whence.json"));
  const std::string text = to_json_text(sidecar);
  require(to_json_text(value_of(parse_sidecar(text, "again"))) == text, "a sidecar changed when it was written");

  const std::string path = file_of("fuzzed.whence.json", right);
  const GoodModel& good = good_model();
  attempt([&] { run_command({"show", path}); });
  attempt([&] { run_command({"validate", good.model, "--sidecar", path, "--json"}); });
  attempt([&] { annotate(good.model, scratch("output.onnx"), {.sidecar = path, .allow_different_weights = true}); });
}

const Target target("sidecar", run, 16384, mutate_json);

}  // namespace
}  // namespace whence::fuzz
