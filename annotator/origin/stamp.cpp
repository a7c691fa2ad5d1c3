#include "annotator/origin/stamp.h"

#include <charconv>

namespace whence::origin {

namespace {

constexpr std::string_view fused_prefix = "fused:";
constexpr std::string_view shared_prefix = "shared:";

}  // namespace

std::string to_stamp(const NodeOrigin& origin) {
  std::string text;
  if (origin.kind == OriginKind::fused) text = fused_prefix;
  if (origin.kind == OriginKind::shared) text = shared_prefix;
  for (std::size_t i = 0; i < origin.ops.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(origin.ops[i]);
  }
  return text;
}

std::optional<NodeOrigin> parse_stamp(std::string_view text) {
  NodeOrigin origin;
  if (text.starts_with(fused_prefix)) {
    origin.kind = OriginKind::fused;
    text.remove_prefix(fused_prefix.size());
  } else if (text.starts_with(shared_prefix)) {
    origin.kind = OriginKind::shared;
    text.remove_prefix(shared_prefix.size());
    if (text.empty()) return origin;  // no operation produced it, as for an input that the model returns
  }
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int32_t op = -1;
    const auto [next, failure] = std::from_chars(at, end, op);
    if (failure != std::errc() || op < 0) return std::nullopt;
    origin.ops.push_back(op);
    if (next == end) break;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
  if (origin.kind == OriginKind::own && origin.ops.size() != 1) return std::nullopt;
  return origin;
}

std::string to_ranges(const std::vector<std::int32_t>& operations) {
  std::string text;
  for (std::size_t i = 0; i < operations.size();) {
    std::size_t last = i;
    while (last + 1 < operations.size() && operations[last + 1] == operations[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(operations[i]);
    if (last > i) text += '-' + std::to_string(operations[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<std::int32_t>> parse_ranges(std::string_view text) {
  constexpr std::size_t max_operations = 1'000'000;
  std::vector<std::int32_t> operations;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int32_t first = -1;
    auto [next, failure] = std::from_chars(at, end, first);
    std::int32_t last = first;
    if (failure == std::errc() && next != end && *next == '-') {
      const auto tail = std::from_chars(next + 1, end, last);
      next = tail.ptr, failure = tail.ec;
    }
    const bool ascends = operations.empty() || first > operations.back();
    if (failure != std::errc() || first < 0 || last < first || !ascends) return std::nullopt;
    if (static_cast<std::size_t>(last - first) >= max_operations - operations.size()) return std::nullopt;
    for (std::int32_t op = first;; ++op) {
      operations.push_back(op);
      if (op == last) break;
    }
    if (next == end) break;
    if (*next != ',' || next + 1 == end) return std::nullopt;
    at = next + 1;
  }
  return operations;
}

}  // namespace whence::origin
