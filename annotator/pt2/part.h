// Part: a piece of an archive's JSON, read with its type checked. Somebody else wrote the file: what is missing or of
// another type ends in an Error(corrupt_file) that names the entry being read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "annotator/pt2/json.h"
#include "schema/result.h"

namespace whence::pt2 {

// The place being read, for errors: the archive, and the entry in it ("node 'conv2d'").
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
  Part(const Json& document, const Reading& reading) : Part(document, document.root(), reading) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<Part> maybe(std::string_view key) const {
    const JsonValue* found = find(key);
    return found == nullptr ? std::nullopt : std::optional<Part>(Part(json_, *found, reading_));
  }
  Part at(const char* key) const {
    const JsonValue* found = find(key);
    if (found == nullptr) missing(key);
    return {json_, *found, reading_};
  }
  // The one alternative of a union that is there: {"as_int": 1}.
  std::pair<std::string_view, Part> alternative() const {
    if (!is(JsonValue::Kind::object) || value_.size != 1) reading_.corrupt("expected one of several alternatives");
    return {json_.key(value_, 0), {json_, json_.entry(value_, 0), reading_}};
  }

  bool is_null() const { return is(JsonValue::Kind::null); }
  std::string_view view() const {  // valid as long as the document lives
    if (!is(JsonValue::Kind::string)) wrong("a string");
    return value_.string();
  }
  std::string text() const { return std::string(view()); }
  std::int64_t integer() const {
    if (!is(JsonValue::Kind::integer)) wrong("an integer of 64 bits");
    return value_.integer;
  }
  double number() const;  // also "Infinity", "-Infinity" and "NaN", as PyTorch writes them
  bool flag() const {
    if (!is(JsonValue::Kind::boolean)) wrong("true or false");
    return value_.flag;
  }

  // Elements of a list.
  std::size_t size() const {
    if (!is(JsonValue::Kind::array)) wrong("a list");
    return value_.size;
  }
  Part operator[](std::size_t i) const { return {json_, json_.element(value_, i), reading_}; }

  // Entries of an object: visit(name, part).
  template <class Visit>
  void entries(Visit visit) const {
    if (!is(JsonValue::Kind::object)) wrong("an object");
    for (std::size_t i = 0; i < value_.size; ++i) {
      visit(std::string(json_.key(value_, i)), Part(json_, json_.entry(value_, i), reading_));
    }
  }

  const void* identity() const { return &value_; }  // identifies this place in the document
  const Reading& reading() const { return reading_; }

 private:
  Part(const Json& json, const JsonValue& value, const Reading& reading)
      : json_(json), value_(value), reading_(reading) {}

  bool is(JsonValue::Kind kind) const { return value_.kind == kind; }
  const JsonValue* find(std::string_view key) const {
    return is(JsonValue::Kind::object) ? json_.find(value_, key) : nullptr;
  }
  [[noreturn]] void wrong(const char* expected) const;
  [[noreturn]] void missing(const char* key) const;

  const Json& json_;
  const JsonValue& value_;
  const Reading& reading_;
};

}  // namespace whence::pt2
