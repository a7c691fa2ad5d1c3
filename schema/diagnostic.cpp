// The table of codes, and the text and JSON forms of a diagnostic.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/json_text.h"
#include "schema/printable.h"
#include "whence/diagnostics.h"

namespace whence {
namespace {

// Returns "encoder.layers.0.attn, model.py:88", without the file or operator if the message names it.
std::string place_text(const Place& place, std::string_view message) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += ", ";
    text += part;
  };
  const auto add_unless_named = [&](const std::string& part) {
    if (message.find(part) == std::string_view::npos) add(part);
  };
  add_unless_named(place.file);
  add(place.module.empty() && place.has_module ? "the root module" : place.module);
  add_unless_named(place.op);
  add(place.node);
  add(place.source);
  return text;
}

nlohmann::ordered_json place_json(const Place& place) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  add("file", place.file);
  add("stage", place.stage);
  if (place.has_module || !place.module.empty()) json["module"] = place.module;
  add("node", place.node);
  add("op", place.op);
  add("source", place.source);
  return json;
}

std::string_view severity_word(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  return "error";
}

// Notes have no code: they report no problem that a script would act on.
bool has_code(const Diagnostic& diagnostic) { return diagnostic.severity != Severity::note; }

}  // namespace

const std::vector<CodeInfo>& all_codes() {
  // clang-format off
  static const std::vector<CodeInfo> codes{
      {Code::usage, "usage", ExitCode::usage, "The command line cannot be understood."},
      {Code::missing_file, "missing_file", ExitCode::usage, "A file does not exist or may not be read."},
      {Code::bad_input_spec, "bad_input_spec", ExitCode::usage, "An --input, --inputs or --dynamic argument does not follow its form."},
      {Code::input_mismatch, "input_mismatch", ExitCode::usage, "Example inputs do not fit the model: wrong name, number, dtype or rank."},
      {Code::unknown_node, "unknown_node", ExitCode::usage, "No node, value, module or operator has the requested name."},
      {Code::recording_state, "recording_state", ExitCode::usage, "A live recording was started twice, stopped without a start, or saw no trace."},
      {Code::empty_file, "empty_file", ExitCode::malformed, "A file has no bytes."},
      {Code::truncated_file, "truncated_file", ExitCode::malformed, "A file ends before its content does."},
      {Code::wrong_kind, "wrong_kind", ExitCode::malformed, "A file is not of the kind that the command reads."},
      {Code::corrupt_file, "corrupt_file", ExitCode::malformed, "A file is of the right kind, but its content contradicts itself."},
      {Code::newer_version, "newer_version", ExitCode::malformed, "A file was written in a format newer than this whence reads."},
      {Code::sidecar_mismatch, "sidecar_mismatch", ExitCode::malformed, "An ONNX file and a sidecar, a profile or another file that describes it do not belong together."},
      {Code::run_failed, "run_failed", ExitCode::malformed, "PyTorch failed while it ran the model on the example inputs."},
      {Code::libtorch_crash, "libtorch_crash", ExitCode::malformed, "LibTorch crashed while it read an archive."},
      {Code::file_changed, "file_changed", ExitCode::malformed, "An input became shorter while it was read."},
      {Code::tool_failed, "tool_failed", ExitCode::malformed, "A tool that whence ran failed, or left no ONNX file."},
      {Code::weights_mismatch, "weights_mismatch", ExitCode::malformed, "New weights cannot be put into the file: a tensor's origin is unknown, or a parameter is missing or does not fit."},
      {Code::no_converter, "no_converter", ExitCode::unsupported, "whence has no converter for an operator of the model."},
      {Code::converter_refused, "converter_refused", ExitCode::unsupported, "An operator is used with arguments that ONNX, or whence, cannot express."},
      {Code::unsupported_feature, "unsupported_feature", ExitCode::unsupported, "The model or file uses something that whence does not support."},
      {Code::baked_size, "baked_size", ExitCode::unsupported, "A size that should be dynamic became a constant when the model was traced."},
      {Code::no_example_inputs, "no_example_inputs", ExitCode::unsupported, "The task needs dtypes and shapes, and no example inputs were passed or stored."},
      {Code::over_limit, "over_limit", ExitCode::unsupported, "A file or graph is larger than a limit of whence or of ONNX."},
      {Code::needs_libtorch, "needs_libtorch", ExitCode::unsupported, "The subcommand needs the recorder library and LibTorch, and they could not be loaded."},
      {Code::state_not_kept, "state_not_kept", ExitCode::unsupported, "The model changes its own state, which an ONNX file cannot keep from one run to the next."},
      {Code::baked_value, "baked_value", ExitCode::unsupported, "Traced Python code used the value of a tensor, so the trace holds what it was for the example."},
      {Code::module_in_use, "module_in_use", ExitCode::unsupported, "A live module is recorded twice at once, or runs on another thread while it is recorded."},
      {Code::needs_command, "needs_command", ExitCode::unsupported, "The library works with the whence command, which could not be started."},
      {Code::cannot_write, "cannot_write", ExitCode::output, "The result could not be written; the target is as it was."},
      {Code::side_effect, "side_effect", ExitCode::security, "The model holds an operator with effects outside itself; it was not run."},
      {Code::outside_folder, "outside_folder", ExitCode::security, "A file refers to something outside its own folder."},
      {Code::internal, "internal", ExitCode::bug, "A defect in whence itself."},
  };
  // clang-format on
  return codes;
}

const CodeInfo& info(Code code) {
  const std::vector<CodeInfo>& codes = all_codes();
  const auto found =
      std::find_if(codes.begin(), codes.end(), [&](const CodeInfo& entry) { return entry.code == code; });
  return found == codes.end() ? codes.back() : *found;
}

std::string label(Code code) {
  std::string digits = std::to_string(static_cast<int>(code));
  return "E" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

std::string to_text(const Diagnostic& diagnostic) {
  std::string text;
  if (diagnostic.severity != Severity::error) text += std::string(severity_word(diagnostic.severity)) + ": ";
  if (has_code(diagnostic)) {
    std::string name(info(diagnostic.code).name);
    std::replace(name.begin(), name.end(), '_', ' ');
    text += label(diagnostic.code) + " " + name + ": ";
  }
  text += diagnostic.message;
  if (diagnostic.count > 1) text += " (x" + std::to_string(diagnostic.count) + ")";
  if (const std::string place = place_text(diagnostic.where, diagnostic.message); !place.empty())
    text += " at " + place;
  std::string also;
  for (const Place& further : diagnostic.more_places) {
    const std::string place = place_text(further, diagnostic.message);
    if (!place.empty()) also += (also.empty() ? "; also at " : " and ") + place;
  }
  text += also;
  if (!diagnostic.remedy.empty()) text += "; try: " + diagnostic.remedy;
  return shown(text);
}

std::string to_json(const Diagnostic& diagnostic) {
  nlohmann::ordered_json json;
  if (has_code(diagnostic)) {
    json["code"] = label(diagnostic.code);
    json["name"] = info(diagnostic.code).name;
  }
  json["severity"] = severity_word(diagnostic.severity);
  json["message"] = diagnostic.message;
  json["where"] = place_json(diagnostic.where);
  json["remedy"] = diagnostic.remedy;
  json["count"] = diagnostic.count;
  if (!diagnostic.more_places.empty()) {
    json["more_places"] = nlohmann::ordered_json::array();
    for (const Place& place : diagnostic.more_places) json["more_places"].push_back(place_json(place));
  }
  return json_text(json);
}

Diagnostic warning(Code code, std::string message, std::string remedy, Place where) {
  return {code, Severity::warning, std::move(message), std::move(where), std::move(remedy), 1, {}};
}

Diagnostic note(Code code, std::string message, Place where) {
  return {code, Severity::note, std::move(message), std::move(where), "", 1, {}};
}

ExitCode exit_code(const Diagnostics& diagnostics) {
  ExitCode gravest = ExitCode::ok;  // a greater number is graver
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::error) gravest = std::max(gravest, info(diagnostic.code).exit);
  }
  return gravest;
}

}  // namespace whence
