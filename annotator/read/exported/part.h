// Part: a piece of an archive's JSON, read with its type checked. Somebody else wrote the file: what is missing or of
// another type ends in an Error(corrupt_file) that names the entry being read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "schema/result.h"

namespace whence {

using ArchiveJson = nlohmann::ordered_json;

// What is being read, for errors: the archive, and the entry in it ("node 'conv2d'").
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
  Part(const ArchiveJson& json, const Reading& reading) : json_(json), reading_(reading) {}

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Part at(const char* key) const {
    if (!has(key)) reading_.corrupt(std::string("'") + key + "' is missing");
    return {*json_.find(key), reading_};
  }
  // The one alternative of a union that is there: {"as_int": 1}.
  std::pair<std::string_view, Part> alternative() const {
    if (!json_.is_object() || json_.size() != 1) reading_.corrupt("expected one of several alternatives");
    return {json_.begin().key(), {json_.begin().value(), reading_}};
  }

  bool is_null() const { return json_.is_null(); }
  const std::string& text() const {
    if (!json_.is_string()) wrong("a string");
    return json_.get_ref<const std::string&>();
  }
  std::int64_t integer() const {
    const bool fits =
        json_.is_number_integer() && !(json_.is_number_unsigned() && json_.get<std::uint64_t>() >> 63 != 0);
    if (!fits) wrong("an integer of 64 bits");
    return json_.get<std::int64_t>();
  }
  double number() const;  // also "Infinity", "-Infinity" and "NaN", as PyTorch writes them
  bool flag() const {
    if (!json_.is_boolean()) wrong("true or false");
    return json_.get<bool>();
  }

  // Elements of a list.
  std::size_t size() const {
    if (!json_.is_array()) wrong("a list");
    return json_.size();
  }
  Part operator[](std::size_t i) const { return {json_[i], reading_}; }

  // Entries of an object: visit(name, part).
  template <class Visit>
  void entries(Visit visit) const {
    if (!json_.is_object()) wrong("an object");
    for (const auto& [key, value] : json_.items()) visit(key, Part(value, reading_));
  }

  const Reading& reading() const { return reading_; }

 private:
  [[noreturn]] void wrong(const char* expected) const {
    reading_.corrupt(std::string("expected ") + expected + ", found " + std::string(json_.type_name()));
  }

  const ArchiveJson& json_;
  const Reading& reading_;
};

}  // namespace whence
