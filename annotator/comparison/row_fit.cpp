#include "annotator/comparison/row_fit.h"

#include <algorithm>
#include <cstddef>

#include "annotator/comparison/small_values.h"
#include "annotator/comparison/token_calls.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::ProgramForm;

std::optional<bool> RowFit::same_rows(const onnx_file::OnnxNode& node,
                                      const std::vector<std::int32_t>& operations) const {
  if (node.op_type != "Gather" || node.inputs.size() != 2) return std::nullopt;
  for (const ProgramForm& form : forms_) {
    for (const graph::GraphNode& ours : form.graph->nodes) {
      const bool is_choice = !ours.removed && ours.op_type == "Gather" && ours.inputs.size() == 2 &&
                             std::ranges::any_of(ours.origin.ops, [&](std::int32_t operation) {
                               return std::ranges::find(operations, operation) != operations.end();
                             });
      if (!is_choice) continue;
      if (const auto same = compare(node.inputs[1], *form.graph, ours.inputs[1])) return same;
    }
  }
  return std::nullopt;
}

std::optional<bool> RowFit::compare(std::string_view rows, const graph::Graph& program,
                                    graph::GraphValueId ours) const {
  auto call = call_of(program);
  if (!call) return std::nullopt;
  for (const std::int64_t cached : {std::int64_t{0}, call->positions / 2}) {
    if (cached > 0 && written_.caches.empty()) continue;
    call->cached = cached;
    FileValues file(tensors_, contents_, file_inputs(graph_, written_, *call));
    ProgramValues values(program, program_inputs(program, *call));
    const TensorData* const their_rows = file.of(rows);
    const TensorData* const our_rows = values.of(ours);
    if (their_rows == nullptr || our_rows == nullptr) return std::nullopt;
    const auto theirs = program::Elements::of(*their_rows), expected = program::Elements::of(*our_rows);
    const auto columns = static_cast<std::size_t>(call->positions - cached);
    const auto all = static_cast<std::size_t>(call->positions), batch = static_cast<std::size_t>(call->batch);
    const auto fits = [&](const auto& elements, std::size_t length) {
      return elements && (elements->size() == length || elements->size() == batch * length);
    };
    if (!fits(theirs, columns) || !fits(expected, all)) return std::nullopt;
    for (std::size_t i = 0; i < batch * columns; ++i) {
      const std::size_t at = i / columns * all + static_cast<std::size_t>(cached) + i % columns;
      if (theirs->number(i % theirs->size()) != expected->number(at % expected->size())) return false;
    }
  }
  return true;
}

}  // namespace whence::comparison
