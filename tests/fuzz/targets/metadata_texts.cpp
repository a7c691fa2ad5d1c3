// Reads texts in the metadata of nodes and models, and checks that writing restores them.
#include "annotator/annotation/merged_entries.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/data_file.h"
#include "annotator/origin/carried_token.h"
#include "annotator/origin/python_text.h"
#include "annotator/origin/scope_path.h"
#include "annotator/origin/stamp.h"
#include "annotator/text/patterns.h"
#include "annotator/text/python_list.h"
#include "schema/printable.h"
#include "schema/sidecar/base64.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void stamps(std::string_view input) {
  if (const auto origin = origin::parse_stamp(input)) {
    const auto again = origin::parse_stamp(origin::to_stamp(*origin));
    require(again && again->kind == origin->kind && again->ops == origin->ops, "a stamp changed when it was written");
  }
  if (const auto operations = origin::parse_ranges(input)) {
    require(origin::parse_ranges(origin::to_ranges(*operations)) == operations, "ranges changed when written");
  }
}

void lists(std::string_view input) {
  if (const auto texts = text::parse_python_list(input)) {
    require(text::parse_python_list(origin::python_repr(*texts)) == texts, "a list changed when it was written");
    origin::scope_path(*texts);
  }
  require(
      text::parse_python_list(origin::python_repr(std::vector{std::string(input)})) == std::vector{std::string(input)},
      "a text changed as a Python literal");
}

void tokens(std::string_view input) {
  origin::token_in(input);
  const auto token = origin::with_token(input, true, {.name = "/a/MatMul", .confidence = origin::Confidence::ancestor});
  require(origin::token_in(token)->name == "/a/MatMul", "a written token is not read");
  require(origin::without_token(token) == input, "removing a token does not restore the text");
}

void entries(std::string_view input) {
  const auto merged = annotation::parse_merged_entries(input);
  const auto again = annotation::parse_merged_entries(annotation::to_text(merged));
  require(again.size() == merged.size(), "entries changed when they were written");
  onnx_file::parse_former(input);
  onnx_file::parse_data_number(input);
}

void names(std::string_view input) {
  require(is_utf8(printable(input)), "a printable text is not UTF-8");
  shown(input);
  escape_xml(input);
  const std::size_t half = input.size() / 2;
  try {
    text::Patterns::of_paths({std::string(input.substr(0, half))}).match(input.substr(half));
  } catch (const Error&) {  // not a pattern
  }
}

void run(std::string_view input) {
  for (const auto part : {stamps, lists, tokens, entries, names}) part(input);
}

const Target target("metadata_texts", run, 512);

}  // namespace
}  // namespace whence::fuzz
