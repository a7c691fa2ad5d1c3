#include "annotator/derivation/lines.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "schema/element_count.h"

namespace whence::derivation {
namespace {

bool is_complete(const std::vector<Run>& runs, std::int64_t size) {
  return runs.size() == 1 && runs[0].first == 0 && runs[0].count == size && (runs[0].step == 1 || size == 1);
}

// Returns the first line of each block of `size` lines; empty if a run with another step has more than one line.
std::vector<std::int64_t> block_starts(const std::vector<Run>& runs, std::int64_t size) {
  std::vector<std::int64_t> starts;
  for (const Run& run : runs) {
    if (run.step != 1 && run.count > 1) return {};
    for (std::int64_t i = 0; i < run.count; i += size) starts.push_back(run.first + i);
  }
  return starts;
}

// Returns true for starts of two nested loops: a + i * step + j * inner_step.
bool is_nested(const std::vector<std::int64_t>& starts) {
  const std::size_t count = starts.size();
  for (std::size_t inner = 1; inner <= count; ++inner) {
    if (count % inner != 0) continue;
    const std::int64_t inner_step = inner > 1 ? starts[1] - starts[0] : 0;
    const std::int64_t step = inner < count ? starts[inner] - starts[0] : 0;
    bool fits = true;
    for (std::size_t i = 0; fits && i < count; ++i) {
      const auto outer = static_cast<std::int64_t>(i / inner), within = static_cast<std::int64_t>(i % inner);
      fits = starts[i] == starts[0] + outer * step + within * inner_step;
    }
    if (fits) return true;
  }
  return false;
}

}  // namespace

bool is_regular(const std::vector<Run>& runs) {
  if (runs.size() <= 1) return true;
  const bool with_steps = std::ranges::any_of(runs, [](const Run& run) { return run.count > 1 && run.step != 1; });
  if (with_steps) {
    // Every second line, then the others: equal runs at regular places.
    std::vector<std::int64_t> starts;
    for (const Run& run : runs) {
      if (run.count != runs[0].count || run.step != runs[0].step) return false;
      starts.push_back(run.first);
    }
    return is_nested(starts);
  }
  std::int64_t size = 0;
  for (const Run& run : runs) size = std::gcd(size, run.count);
  const std::vector<std::int64_t> starts = block_starts(runs, size);
  const std::vector<std::int64_t> lstm = {0, 3 * size, size, 2 * size}, gru = {size, 0, 2 * size};
  return starts == lstm || starts == gru || is_nested(starts);
}

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

bool is_ordered(const Expression& expression) {
  std::map<std::string, Run> last;  // of a parameter
  bool ordered = true;
  const auto visit = [&](const auto& self, const Expression& each, const std::vector<Run>* runs) -> void {
    if (const auto* step = std::get_if<PickStep>(&each.step)) runs = &step->runs;
    if (const auto* step = std::get_if<ParameterStep>(&each.step)) {
      for (const Run& run : runs == nullptr ? std::vector<Run>() : *runs) {
        const auto [before, is_first] = last.try_emplace(step->name, run);
        const bool follows = run.first > before->second.first + (before->second.count - 1) * before->second.step;
        ordered = ordered && (is_first || follows || run == before->second);  // one line may be repeated
        before->second = run;
      }
    }
    for (const Expression& input : each.inputs) self(self, input, runs);
  };
  visit(visit, expression, nullptr);
  return ordered;
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
