// The parts of which a page's data is made, for reports and comparisons: JSON for few values, and for all that grows
// with the model columns of numbers and pieces of text, packed into HTML elements that page/data.js unpacks. A browser
// needs seconds to load a hundred megabytes of JSON.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/files/files.h"
#include "schema/flat_map.h"

namespace whence::report {

using Json = nlohmann::ordered_json;

// Returns ASCII JSON, so that names reach the page only through JSON.parse; without '<', so that no name can end the
// enclosing element.
std::string embedded(const Json& json);

// Compresses text by raw deflate (RFC 1951) and encodes it in base64; page/inflate.js unpacks it.
std::string deflated(std::string_view text);

// Text in memory with the write() of a file.
struct TextSink {
  std::string text;

  void write(std::string_view part) { text += part; }
};

template <class To>
void put(To& to, const Json& json) {
  to.write(embedded(json));
}
template <class To>
void put(To& to, std::integral auto number) {
  char digits[24];
  to.write(std::string_view(digits, std::to_chars(digits, std::end(digits), number).ptr));
}

// Writes a JSON string; nearly every text needs no escapes and is written directly.
template <class To>
void put_text(To& to, std::string_view text) {
  const bool plain =
      std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<'; });
  if (!plain) return put(to, Json(text));
  to.write("\"");
  to.write(text);
  to.write("\"");
}

// Writes an array; `put_item` writes each element.
template <class To, class Items, class PutItem>
void put_array(To& to, const Items& items, const PutItem& put_item) {
  std::string_view between = "[";
  for (const auto& item : items) {
    to.write(std::exchange(between, ","));
    put_item(item);
  }
  to.write(items.empty() ? "[]" : "]");
}

// Numbers distinct texts.
class Interned {
 public:
  std::uint32_t of(std::string_view text) {
    const auto known = numbers_.find(text);
    return known != numbers_.end() ? known->second : of_lasting(copies_.emplace_back(text));
  }
  // `text` must outlive this.
  std::uint32_t of_lasting(std::string_view text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  const std::vector<std::string_view>& texts() const { return texts_; }
  template <class To>
  void put_all(To& to) const {
    put_array(to, texts_, [&](std::string_view text) { put_text(to, text); });
  }

 private:
  FlatMap<std::string_view, std::uint32_t> numbers_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> copies_;
};

// Number of texts, or of nodes with evidence, that are unpacked together.
constexpr std::size_t piece_size = 1000;

// Packs columns and texts into HTML elements, which the page unpacks.
class Packed {
 public:
  // Adds a column of optional numbers.
  void column(std::string_view name, const std::vector<std::optional<std::uint64_t>>& numbers);
  void column(std::string_view name, const std::vector<std::uint64_t>& numbers);

  template <class Items, class TextOf>
  void texts(std::string_view name, const Items& items, const TextOf& text_of) {
    for (std::size_t first = 0, piece = 0; first < items.size(); first += piece_size, ++piece) {
      TextSink to;
      put_array(to, std::span(items).subspan(first, std::min(piece_size, items.size() - first)),
                [&](const auto& item) { put_text(to, text_of(item)); });
      element("text-" + std::string(name) + "-" + std::to_string(piece), deflated(to.text));
    }
  }

  std::string elements;

 private:
  void element(const std::string& id, std::string_view content, std::string_view attributes = {});
};

// The data of a page. The format is private to the page.
struct PageData {
  std::string tables;  // JSON
  std::string packed;  // HTML elements
};

// A page's own script, with its SHA-256 digest in hexadecimal.
struct PageScript {
  std::string_view text, digest;
};

// Writes page/frame.html with the style, the data and the script. `write_more` writes further elements of data. The
// page's policy names the script by its digest, so the browser runs no other script and fetches nothing.
void write_page(const PageScript& script, const PageData& data, AtomicFile& to,
                const std::function<void(AtomicFile&)>& write_more = nullptr);

}  // namespace whence::report
