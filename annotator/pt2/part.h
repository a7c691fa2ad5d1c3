// Part: a piece of an archive's JSON, read with type checks. The file comes from another tool: a missing key or a wrong
// type throws Error(corrupt_file) with the name of the current entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "schema/json_document.h"
#include "schema/result.h"

namespace whence::pt2 {

// The current location, for errors: the archive, and the entry in it ("node 'conv2d'").
struct Reading {
  std::string file;
  std::string entry;

  [[noreturn]] void corrupt(const std::string& why) const {
    throw Error(Code::corrupt_file, (entry.empty() ? "" : entry + ": ") + why,
                "save the program again with torch.export.save", {.file = file, .stage = "read"});
  }
};

class Part {
 public:
  Part(const JsonDocument& document, const Reading& reading) : Part(document.root(), reading) {}

  bool has(std::string_view key) const { return value_.find(key).has_value(); }
  std::optional<Part> maybe(std::string_view key) const {
    const auto found = value_.find(key);
    return found ? std::optional(Part(*found, reading_)) : std::nullopt;
  }
  Part at(const char* key) const {
    const auto found = value_.find(key);
    if (!found) missing(key);
    return {*found, reading_};
  }
  // Returns the present alternative of a union: {"as_int": 1}.
  std::pair<std::string_view, Part> alternative() const {
    if (!value_.is_object() || value_.size() != 1) reading_.corrupt("expected one of several alternatives");
    return {value_.key(0), {value_.member(0), reading_}};
  }

  bool is_null() const { return value_.is_null(); }
  std::string_view view() const {  // valid during the lifetime of the document
    if (!value_.is_string()) wrong("a string");
    return value_.text();
  }
  std::string text() const { return std::string(view()); }
  std::int64_t integer() const {
    if (value_.kind() != JsonKind::integer) wrong("an integer of 64 bits");
    return value_.integer();
  }
  double number() const;  // also "Infinity", "-Infinity" and "NaN", as PyTorch writes them
  bool flag() const {
    if (!value_.is_boolean()) wrong("true or false");
    return value_.flag();
  }

  // Elements of a list.
  std::size_t size() const {
    if (!value_.is_array()) wrong("a list");
    return value_.size();
  }
  Part operator[](std::size_t i) const { return {value_[i], reading_}; }

  // Entries of an object: visit(name, part).
  template <class Visit>
  void entries(Visit visit) const {
    if (!value_.is_object()) wrong("an object");
    for (std::size_t i = 0; i < value_.size(); ++i) visit(std::string(value_.key(i)), Part(value_.member(i), reading_));
  }

  const void* identity() const { return value_.identity(); }  // identifies this place in the document
  const Reading& reading() const { return reading_; }

 private:
  Part(JsonValue value, const Reading& reading) : value_(value), reading_(reading) {}

  [[noreturn]] void wrong(const char* expected) const;
  [[noreturn]] void missing(const char* key) const;

  JsonValue value_;
  const Reading& reading_;
};

}  // namespace whence::pt2
