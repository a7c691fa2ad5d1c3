// [2, -1], [2, -1]                                     before: two equal constants
// [2, -1]                                              after
// Condition: dtype, shape and bytes are equal; neither is a parameter, because parameters keep their name and identity.
// Origins: the union, as a shared helper.
#include <string>
#include <unordered_map>

#include "annotator/simplify/rule.h"

namespace whence::simplify {

namespace {

std::string key(const TensorData& data, std::span<const std::byte> bytes) {
  std::string text = std::string(name_of(data.dtype)) + "[";
  for (const std::int64_t size : data.shape) text += std::to_string(size) + ",";
  text += "]";
  return text.append(as_text(bytes));
}

// Larger constants are skipped: they are rarely equal, and comparing them costs more than it saves.
constexpr std::uint64_t largest = 32768;  // bytes

}  // namespace

std::size_t share_constants(Rewriter& rewriter) {
  std::unordered_map<std::string, std::size_t> first;
  std::size_t shared = 0;
  for (std::size_t i = 0; i < rewriter.graph().initializers.size(); ++i) {
    const graph::Initializer& initializer = rewriter.graph().initializers[i];
    if (initializer.parameter || initializer.data.bytes.size() > largest) continue;
    const auto bytes = initializer.data.bytes.in_memory();
    if (!bytes) continue;
    if (rewriter.use_count(initializer.value) == 0) continue;
    const auto [found, is_new] = first.try_emplace(key(initializer.data, *bytes), i);
    if (is_new) continue;
    const graph::Initializer& kept = rewriter.graph().initializers[found->second];
    if (!rewriter.can_replace(initializer.value, kept.value)) continue;
    const origin::NodeOrigin origin =
        origin::merge_origins(kept.origin, initializer.origin, origin::OriginKind::shared);
    rewriter.replace(initializer.value, kept.value);
    rewriter.set_constant_origin(found->second, origin);
    ++shared;
  }
  return shared;
}

}  // namespace whence::simplify
