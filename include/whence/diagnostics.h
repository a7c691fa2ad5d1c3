// Diagnostics: how whence reports problems. Each states what went wrong, where, and what to try. All functions of the
// C++ API throw whence::Error, which holds diagnostics. Codes are stable, so scripts may match on them.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whence {

// Exit codes of the command. The code of an error determines its exit code.
enum class ExitCode : int {
  ok = 0,
  findings = 1,     // validate found something; diff found a difference
  usage = 2,        // the command line, or inputs that do not fit the model
  malformed = 3,    // a file is corrupt or of the wrong kind
  unsupported = 4,  // an operator, dtype or feature without support, or over a limit
  output = 5,       // the result could not be written
  security = 6,     // refused: the input would reach outside its folder, or run side effects
  bug = 70,         // a defect in whence itself
};

enum class Code : std::uint16_t {
  // 01xx usage
  usage = 101,
  missing_file = 102,
  bad_input_spec = 103,
  input_mismatch = 104,
  unknown_node = 105,
  recording_state = 106,
  // 02xx malformed input
  empty_file = 201,
  truncated_file = 202,
  wrong_kind = 203,
  corrupt_file = 204,
  newer_version = 205,
  sidecar_mismatch = 206,
  run_failed = 207,
  libtorch_crash = 208,
  file_changed = 209,
  tool_failed = 210,
  weights_mismatch = 211,
  // 03xx unsupported
  no_converter = 301,
  converter_refused = 302,
  unsupported_feature = 303,
  baked_size = 304,
  no_example_inputs = 305,
  over_limit = 306,
  needs_libtorch = 307,
  state_not_kept = 308,
  baked_value = 309,
  module_in_use = 310,
  needs_command = 311,
  // 04xx output
  cannot_write = 401,
  // 05xx security
  side_effect = 501,
  outside_folder = 502,
  // 09xx a defect in whence
  internal = 901,
};

struct CodeInfo {
  Code code;
  std::string_view name;  // stable word, e.g. "no_converter"
  ExitCode exit;
  std::string_view summary;  // one sentence, for `whence codes` and the README
};

// All codes in numeric order. Tests compare the table with the enum.
const std::vector<CodeInfo>& all_codes();
const CodeInfo& info(Code code);
std::string label(Code code);  // "E0301"

enum class Severity : std::uint8_t { error, warning, note };

// The location of a problem. Set the members that are known: {.file = path, .stage = "read"}.
struct Place {
  std::string file = {};
  std::string stage = {};   // "read", "run", "lower", "convert", "write", ...
  std::string module = {};  // qualified name; the root is empty with has_module set
  bool has_module = false;
  std::string node = {};
  std::string op = {};      // "aten::gelu"
  std::string source = {};  // "modeling_bert.py:88 forward"

  bool operator==(const Place&) const = default;
};

struct Diagnostic {
  Code code = Code::internal;
  Severity severity = Severity::error;
  std::string message;
  Place where;
  std::string remedy;              // the next step to try; never empty for errors
  std::int64_t count = 1;          // number of occurrences
  std::vector<Place> more_places;  // up to two further locations
};

using Diagnostics = std::vector<Diagnostic>;

// Makes a warning: the work was done, but the result may differ from what the user expects.
Diagnostic warning(Code code, std::string message, std::string remedy, Place where = {});
// Makes a note: the work was done, and nothing is wrong.
Diagnostic note(Code code, std::string message, Place where = {});

// `E0301 no converter: aten::foo.bar (x14) at encoder.layers.0.attn, model.py:88; try: ...`
std::string to_text(const Diagnostic& diagnostic);
// Returns a JSON object as text: code, name, severity, message, where, remedy, count.
std::string to_json(const Diagnostic& diagnostic);
// Returns the exit code of the gravest error, or ok if there is none.
ExitCode exit_code(const Diagnostics& diagnostics);

// The only exception type that whence throws.
class Error : public std::exception {
 public:
  explicit Error(Diagnostic diagnostic) : Error(Diagnostics{std::move(diagnostic)}) {}
  explicit Error(Diagnostics diagnostics) : diagnostics_(std::move(diagnostics)) {
    if (!diagnostics_.empty()) text_ = to_text(diagnostics_.front());
  }
  Error(Code code, std::string message, std::string remedy, Place where = {})
      : Error(Diagnostic{code, Severity::error, std::move(message), std::move(where), std::move(remedy), 1, {}}) {}

  const Diagnostics& diagnostics() const { return diagnostics_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Diagnostics diagnostics_;
  std::string text_;
};

}  // namespace whence
