// Writes protobuf's wire format (protobuf.dev/programming-guides/encoding): length-delimited fields around bytes that
// protobuf itself never reads, and varints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace whence::onnx_file::wire {

inline constexpr std::uint32_t varint_type = 0;
inline constexpr std::uint32_t length_delimited = 2;

inline void append_varint(std::string& to, std::uint64_t value) {
  while (value >= 0x80) {
    to.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to.push_back(static_cast<char>(value));
}

inline std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// Appends tag and length of a string, bytes or message field; the content must follow.
inline void append_field_head(std::string& to, std::uint32_t field, std::uint64_t length) {
  append_varint(to, field << 3 | length_delimited);
  append_varint(to, length);
}

inline std::size_t field_head_size(std::uint32_t field, std::uint64_t length) {
  return varint_size(field << 3 | length_delimited) + varint_size(length);
}

inline void append_field(std::string& to, std::uint32_t field, std::string_view content) {
  append_field_head(to, field, content.size());
  to += content;
}

inline void append_varint_field(std::string& to, std::uint32_t field, std::uint64_t value) {
  append_varint(to, field << 3 | varint_type);
  append_varint(to, value);
}

}  // namespace whence::onnx_file::wire
