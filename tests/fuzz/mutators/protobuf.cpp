// Mutates protobuf messages but keeps them well-formed, so that the code after the parser is reached: swaps, repeats,
// nests, shortens and removes fields, and sets numbers to extremes.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/fuzz/mutators/mutators.h"

namespace whence::fuzz {
namespace {

using Random = std::mt19937;

enum Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  std::uint64_t tag = 0;
  std::uint64_t number = 0;  // for a varint
  std::string_view content;  // for other wire types
  std::string changed;       // replaces the content if `is_changed`
  bool is_changed = false;

  Wire wire() const { return static_cast<Wire>(tag & 7); }
  std::string_view bytes() const { return is_changed ? std::string_view(changed) : content; }
};
using Message = std::vector<Field>;

std::optional<std::uint64_t> take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<Message> parse(std::string_view text) {
  Message message;
  while (!text.empty()) {
    const auto tag = take_varint(text);
    if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return std::nullopt;
    Field field{*tag, 0, {}, {}, false};
    std::uint64_t size = 0;
    if (field.wire() == varint || field.wire() == bytes) {
      const auto number = take_varint(text);
      if (!number) return std::nullopt;
      (field.wire() == varint ? field.number : size) = *number;
    } else if (field.wire() == fixed64 || field.wire() == fixed32) {
      size = field.wire() == fixed64 ? 8 : 4;
    } else {
      return std::nullopt;
    }
    if (size > text.size()) return std::nullopt;
    field.content = text.substr(0, size);
    text.remove_prefix(size);
    message.push_back(std::move(field));
  }
  return message;
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

std::string serialize(const Message& message) {
  std::string text;
  for (const Field& field : message) {
    put_varint(text, field.tag);
    if (field.wire() == varint) put_varint(text, field.number);
    if (field.wire() == bytes) put_varint(text, field.bytes().size());
    text += field.bytes();
  }
  return text;
}

std::uint64_t extreme_or_small(Random& random) {
  constexpr std::array<std::uint64_t, 10> numbers = {
      0, 1, 2, 0x7f, 0xffff, 0x7fffffff, 0x80000000, 0x7fffffffffffffff, ~0ull, 1ull << 63};
  return random() % 2 == 0 ? numbers[random() % numbers.size()] : random() % 32;
}

// Returns other bytes of about the same length.
std::string other_bytes(std::string_view content, Random& random) {
  std::string text(content);
  switch (random() % 4) {
    case 0:
      return text.empty() ? "x" : "";
    case 1:
      return text + text;
    case 2:
      if (text.empty()) return "/";
      text[random() % text.size()] = static_cast<char>(random());
      return text;
    default:
      if (text.empty()) return text;
      text.erase(random() % text.size(), random() % 4 + 1);
      return text;
  }
}

std::string mutated(std::string_view text, Random& random, int depth);

void mutate_field(Field& field, Random& random, int depth) {
  if (field.wire() == varint) {
    field.number = random() % 3 == 0 ? field.number + random() % 3 - 1 : extreme_or_small(random);
    return;
  }
  field.is_changed = true;
  const auto inner = field.wire() == bytes && depth < 20 ? parse(field.content) : std::nullopt;
  if (inner && !inner->empty() && random() % 8 != 0) {
    field.changed = mutated(field.content, random, depth + 1);
    return;
  }
  field.changed = field.wire() == bytes ? other_bytes(field.content, random) : std::string(field.content);
  if (field.wire() != bytes) field.changed[random() % field.changed.size()] = static_cast<char>(random());
}

// Usually changes a nested message.
std::string mutated(std::string_view text, Random& random, int depth) {
  auto message = parse(text);
  if (!message || message->empty()) return "";
  const std::size_t at = random() % message->size(), other = random() % message->size();
  switch (random() % 12) {
    case 0:
      message->erase(message->begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      message->insert(message->begin() + static_cast<std::ptrdiff_t>(other), Field((*message)[at]));
      break;
    case 2:
      std::swap((*message)[at], (*message)[other]);
      break;
    case 3:  // takes another field's content, so that a name becomes an existing one
      if ((*message)[at].wire() == (*message)[other].wire()) {
        (*message)[at].content = (*message)[other].content;
        (*message)[at].number = (*message)[other].number;
      }
      break;
    case 4:
      (*message)[at].tag = ((random() % 27 + 1) << 3) | (*message)[at].wire();
      break;
    default:
      mutate_field((*message)[at], random, depth);
  }
  return serialize(*message);
}

}  // namespace

std::string mutate_protobuf(std::string_view message, unsigned seed) {
  Random random(seed);
  std::string text(message);
  for (auto i = random() % 3 + 1; i-- > 0;) {
    std::string next = mutated(text, random, 0);
    if (next.empty()) break;
    text = std::move(next);
  }
  return text == message ? "" : text;
}

}  // namespace whence::fuzz
