// Reads the rows of a sidecar's tables. Sidecars are untrusted: the type and range of every cell are checked, and an
// Error names the file and the cell.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/json_document.h"
#include "schema/program.h"
#include "schema/sidecar/form.h"

namespace whence {

using Json = nlohmann::ordered_json;

// The context for reading cells: the interned strings, and the file name for errors.
struct SidecarText {
  std::string file;
  std::vector<std::string> strings;  // the table of interned strings

  // Throws Error(corrupt_file). `pointer` is a JSON pointer (RFC 6901) to the offending part.
  [[noreturn]] void corrupt(const std::string& pointer, const std::string& why) const;
};

// One value of a row, or an element of a list in it.
class Cell {
 public:
  Cell(const SidecarText& text, JsonValue json, std::string_view table, std::size_t row, std::size_t column)
      : text_(text), json_(json), table_(table), row_(row), column_(column) {}

  std::int64_t integer(std::int64_t minimum, std::int64_t maximum) const;
  std::int64_t size() const { return integer(0, INT64_MAX); }
  std::int32_t index(std::size_t count) const;          // 0 to count - 1
  std::int32_t index_or_none(std::size_t count) const;  // also none_id
  template <class Kind, class T>
  Index<Kind> index_into(const IndexedVector<Index<Kind>, T>& list) const {
    return Index<Kind>(index(list.size()));
  }
  template <class Kind, class T>
  Index<Kind> index_into_or_none(const IndexedVector<Index<Kind>, T>& list) const {
    return Index<Kind>(index_or_none(list.size()));
  }
  double floating() const;  // a number, "inf", "-inf" or "nan"
  bool flag() const;
  const std::string& text() const;        // an interned string
  std::string_view word() const;          // a string that is not interned
  std::string_view word_or_null() const;  // empty for null
  DType dtype() const;
  Argument argument(std::size_t value_count) const;  // value_count: number of rows in the value table

  // Returns the enumerator whose value is the position of the word in `words`.
  template <class Enum>
  Enum one_of(std::span<const std::string_view> words) const {
    return static_cast<Enum>(position_in(words));
  }

  bool is_null() const { return json_.is_null(); }
  bool is_list() const { return json_.is_array(); }
  std::size_t length() const;  // length of a list
  Cell element(std::size_t i) const { return {text_, json_[i], table_, row_, column_}; }
  template <class Id = std::int32_t>
  std::vector<Id> indices(std::size_t count) const {  // a list of index()
    std::vector<Id> items(length());
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = Id(element(i).index(count));
    return items;
  }
  std::vector<std::int64_t> sizes() const;  // a list of size()
  std::vector<std::string> texts() const;   // a list of text()

  [[noreturn]] void corrupt(const std::string& why) const;

 private:
  std::size_t position_in(std::span<const std::string_view> words) const;
  Argument marked_argument(std::size_t value_count) const;

  const SidecarText& text_;
  JsonValue json_;
  std::string_view table_;
  std::size_t row_, column_;
};

// Returns the cells of one row from left to right.
class RowReader {
 public:
  RowReader(const SidecarText& text, JsonValue cells, std::string_view table, std::size_t row)
      : text_(text), cells_(cells), table_(table), row_(row) {}
  Cell next() {
    const std::size_t column = column_++;
    return {text_, column < cells_.size() ? cells_[column] : JsonValue(), table_, row_, column};
  }
  std::size_t number() const { return row_; }

 private:
  const SidecarText& text_;
  JsonValue cells_;
  std::string_view table_;
  std::size_t row_, column_ = 0;
};

// A table with the columns of `form`. Older files may lack the last columns, and newer files may have more. Each row
// has one cell for each column.
class TableReader {
 public:
  TableReader(const SidecarText& text, JsonValue document, const sidecar_form::Table& form);
  std::size_t size() const { return rows_.size(); }
  RowReader row(std::size_t i) const;

  // Returns the columns after those of `form` as {columns, rows}, or null if there are none.
  Json unknown_columns() const;

  // Reads one item from each row.
  template <class Item, class Read>
  std::vector<Item> read(Read read_row) const {
    std::vector<Item> items;
    items.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) {
      RowReader cells = row(i);
      items.push_back(read_row(cells));
    }
    return items;
  }

 private:
  const SidecarText& text_;
  const sidecar_form::Table& form_;
  JsonValue columns_, rows_;
};

}  // namespace whence
