#include "annotator/derivation/lines.h"

#include <utility>

#include "schema/element_count.h"

namespace whence::derivation {
namespace {

bool is_complete(const std::vector<Run>& runs, std::int64_t size) {
  return runs.size() == 1 && runs[0].first == 0 && runs[0].count == size && (runs[0].step == 1 || size == 1);
}

}  // namespace

void add_index(std::vector<Run>& runs, std::int64_t index) {
  if (!runs.empty()) {
    Run& last = runs.back();
    if (last.count == 1 && index > last.first) {
      last.step = index - last.first;
      last.count = 2;
      return;
    }
    if (last.count > 1 && index == next_index(runs)) {
      ++last.count;
      return;
    }
  }
  runs.push_back({index, 1, 1});
}

Expression lines_of(Expression parameter, const std::vector<std::int64_t>& dims, const Piece& piece) {
  const bool by_rows = piece.direction == Direction::rows;
  const std::int64_t count = by_rows ? dims[0] : dims[1];
  if (!by_rows) {
    parameter = transposed(std::move(parameter));
  } else if (dims.size() > 2) {
    parameter = reshaped(std::move(parameter), dims, {count, element_count(dims) / count});
  }
  if (is_complete(piece.runs, count)) return parameter;
  return {PickStep{piece.runs}, {std::move(parameter)}};
}

Expression joined(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {ConcatenateStep{}, std::move(parts)};
}

Expression reshaped(Expression input, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  if (from == to) return input;
  return {ReshapeStep{to}, {std::move(input)}};
}

Expression transposed(Expression input) {
  const auto* step = std::get_if<TransposeStep>(&input.step);
  if (step != nullptr && step->order.size() == 2) {
    Expression original = std::move(input.inputs[0]);
    return original;
  }
  return {TransposeStep{{1, 0}}, {std::move(input)}};
}

}  // namespace whence::derivation
