// Reads protobuf's wire format (protobuf.dev/programming-guides/encoding): visits the fields of a message without
// copying their content. Throws Error(truncated_file) if a length passes the end of its message, Error(corrupt_file)
// for bytes that no writer produces.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "schema/result.h"

namespace whence::onnx_file::wire {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;  // set for varint, fixed64 and fixed32
  std::string_view bytes;   // content of a string, bytes, message or packed field
  std::string_view span;    // the complete field in the message, with its tag

  bool is_bytes(std::uint32_t other) const { return number == other && type == WireType::bytes; }
  bool is_varint(std::uint32_t other) const { return number == other && type == WireType::varint; }
};

class FieldReader {
 public:
  // `place`: names the file in errors; must outlive the reader.
  FieldReader(std::string_view message, const Place& place) : rest_(message), place_(place) {}

  bool done() const { return rest_.empty(); }

  Field next() {
    Field field;
    const char* const begin = rest_.data();
    const std::uint64_t tag = varint();
    if (tag >> 3 == 0 || tag >> 3 > max_field_number) corrupt("field number " + std::to_string(tag >> 3));
    field.number = static_cast<std::uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        field.type = WireType::varint;
        field.value = varint();
        break;
      case 1:
        field.type = WireType::fixed64;
        field.value = fixed(8);
        break;
      case 2:
        field.type = WireType::bytes;
        field.bytes = take(varint());
        break;
      case 5:
        field.type = WireType::fixed32;
        field.value = fixed(4);
        break;
      default:
        corrupt("wire type " + std::to_string(tag & 7));
    }
    field.span = {begin, static_cast<std::size_t>(rest_.data() - begin)};
    return field;
  }

  // Returns the next number of a packed field.
  std::uint64_t varint() {
    if (!rest_.empty() && static_cast<unsigned char>(rest_[0]) < 0x80) {  // most numbers
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      return byte;
    }
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    corrupt("a number longer than 64 bits");
  }

 private:
  static constexpr std::uint64_t max_field_number = (1U << 29) - 1;

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) {
      throw Error(Code::truncated_file,
                  "the file or a message in it is truncated: " + std::to_string(size) + " bytes announced, " +
                      std::to_string(rest_.size()) + " left",
                  "copy or download the file again", place_);
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::uint64_t fixed(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return value;
  }

  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Code::corrupt_file, "not in protobuf's wire format: " + what, "export or download the file again",
                place_);
  }

  std::string_view rest_;
  const Place& place_;
};

// Iterates over the fields of a message: for (const Field& field : Fields(message, place)). `place` must outlive the
// loop.
class Fields {
 public:
  Fields(std::string_view message, const Place& place) : reader_(message, place) {}

  class Iterator {
   public:
    explicit Iterator(const FieldReader& reader) : reader_(reader) { ++*this; }
    const Field& operator*() const { return field_; }
    Iterator& operator++() {
      ended_ = reader_.done();
      if (!ended_) field_ = reader_.next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return ended_; }

   private:
    FieldReader reader_;
    Field field_;
    bool ended_ = false;
  };

  Iterator begin() const { return Iterator(reader_); }
  static std::default_sentinel_t end() { return {}; }

 private:
  FieldReader reader_;
};

// Calls `visit` with each number of a repeated integer field, packed or not.
template <class Visit>
void for_each_varint(const Field& field, const Place& place, const Visit& visit) {
  if (field.type == WireType::varint) visit(field.value);
  if (field.type != WireType::bytes) return;
  for (FieldReader packed(field.bytes, place); !packed.done();) visit(packed.varint());
}

}  // namespace whence::onnx_file::wire
