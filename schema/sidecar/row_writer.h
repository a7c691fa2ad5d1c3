// Writes the rows of a sidecar's tables: numbers, interned strings, lists and operator arguments as JSON.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/program.h"

namespace whence {

// Returns `text` quoted and escaped. Throws Error(unsupported_feature) if it is not UTF-8.
std::string json_string(std::string_view text);

// Interns strings: stores each distinct string once, numbered in order of first use.
class StringTable {
 public:
  std::int32_t id(std::string_view text) {
    const auto [found, is_new] = ids_.try_emplace(text, static_cast<std::int32_t>(ids_.size()));
    if (is_new) rows_ += (rows_.empty() ? "\n" : ",\n") + json_string(text);
    return found->second;
  }
  const std::string& rows() const { return rows_; }

 private:
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views: the strings outlive the table
  std::string rows_;
};

// Appends the cells of one row and of lists in it, separated by commas.
class RowWriter {
 public:
  RowWriter(std::string& out, StringTable& strings) : out_(out), strings_(strings) {}

  void raw(std::string_view json) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += json;
  }
  void integer(std::int64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    raw({digits.data(), end});
  }
  void text(std::string_view value) { integer(strings_.id(value)); }
  void word(std::string_view value) { raw(json_string(value)); }  // not interned: enumerations, digests, data
  void flag(bool value) { raw(value ? "true" : "false"); }
  void word_or_null(std::string_view value) { value.empty() ? raw("null") : word(value); }
  template <class Kind>
  void integer(Index<Kind> index) {
    integer(index.number());
  }
  void integer_or_null(const std::optional<std::int64_t>& value) { value ? integer(*value) : raw("null"); }

  template <class Items, class Each>
  void list(const Items& items, Each each) {
    raw("[");
    first_ = true;
    for (const auto& item : items) each(item);
    out_ += ']';
    first_ = false;
  }
  template <class Integer>
  void integers(const std::vector<Integer>& items) {
    list(items, [&](Integer item) { integer(item); });
  }
  void texts(const std::vector<std::string>& items) {
    list(items, [&](const std::string& item) { text(item); });
  }

  // Writes a number with a decimal point or exponent; infinities and NaN, which JSON lacks, as words.
  void floating(double value);
  // Writes {"key": content}.
  template <class Content>
  void marked(std::string_view key, Content content) {
    raw("{\"");
    out_.append(key).append("\":");
    first_ = true;
    content();
    out_ += '}';
    first_ = false;
  }

  void argument(const Argument& argument);

 private:
  std::string& out_;
  StringTable& strings_;
  bool first_ = true;
};

}  // namespace whence
