// Reads ONNX's wire format and copies it: strip must restore, byte for byte, the file that annotate read.
#include "annotator/onnx_file/graph_index.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/onnx_file/wire_out.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"
#include "whence/annotate.h"

namespace whence::fuzz {
namespace {

// Keys that annotate and functions write and that strip removes; not the stamps of export.
bool has_annotations(std::string_view input) {
  constexpr std::string_view prefix = "pkg.whence.";
  for (std::size_t at = input.find(prefix); at != std::string_view::npos; at = input.find(prefix, at + 1)) {
    const std::string_view rest = input.substr(at + prefix.size());
    if (!rest.starts_with("op\x12") && !rest.starts_with("program\x12") && !rest.starts_with("folded\x12")) return true;
  }
  return false;
}

// Numbers may be padded. An IR version raised for metadata is restored in its shortest form.
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
  require(index.nodes().size() == onnx_file::all_nodes(summary.graph).size(), "the index has other nodes");
  index.edges();
  index.input_edges();
  index.output_edges();

  const bool has_our_keys = has_annotations(input);
  strip(model, back);
  if (!has_our_keys) require(content_of(back) == input, "strip changed a file that was not annotated");
  annotate(model, annotated, {.carry = input.size() % 2 == 0});
  strip(annotated, back);
  if (has_our_keys || !is_shortest(summary.ir_version, input)) return;
  require(content_of(back) == input, "annotate and strip did not give the file back");
}

const Target target("onnx", run, 8192, mutate_protobuf);

}  // namespace
}  // namespace whence::fuzz
