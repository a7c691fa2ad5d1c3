// Reads and copies ONNX's wire format: strip must restore the bytes of the file that annotate read.
#include "annotator/onnx_file/graph_index.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/onnx_file/wire_out.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

// Returns true if the input has keys that strip removes: those of annotate and functions, not the stamps of export.
bool has_annotations(std::string_view input) {
  constexpr std::string_view prefix = "pkg.whence.";
  for (std::size_t at = input.find(prefix); at != std::string_view::npos; at = input.find(prefix, at + 1)) {
    const std::string_view rest = input.substr(at + prefix.size());
    if (!rest.starts_with("op\x12") && !rest.starts_with("program\x12") && !rest.starts_with("folded\x12")) return true;
  }
  return false;
}

// Returns true if the IR version has its shortest encoding. A varint may be padded, but strip restores only the
// shortest.
bool is_shortest(std::int64_t ir_version, std::string_view input) {
  std::string field;
  onnx_file::wire::append_varint_field(field, onnx_file::proto::model::ir_version,
                                       static_cast<std::uint64_t>(ir_version));
  return input.find(field) != std::string_view::npos;
}

void run(std::string_view input) {
  const std::string model = file_of("model.onnx", input), annotated = scratch("annotated.onnx"),
                    back = scratch("back.onnx");
  const auto summary = value_of(onnx_file::read_onnx_summary(model));
  const onnx_file::GraphIndex index(summary.graph);
  require(index.nodes().size() == onnx_file::all_nodes(summary.graph).size(), "the index has different nodes");
  index.edges();
  index.input_edges();
  index.output_edges();

  const bool is_annotated = has_annotations(input);
  strip(model, back);
  if (!is_annotated) require(content_of(back) == input, "strip changed a file that was not annotated");
  annotate(model, annotated, {.carry = input.size() % 2 == 0});
  strip(annotated, back);
  if (is_annotated || !is_shortest(summary.ir_version, input)) return;
  require(content_of(back) == input, "strip did not restore the file that annotate read");
}

const Target target("onnx", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
