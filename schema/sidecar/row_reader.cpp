// Checks single cells: types, ranges, references.
#include "schema/sidecar/row_reader.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include "schema/result.h"

namespace whence {

void SidecarText::corrupt(const std::string& pointer, const std::string& why) const {
  throw Error(Code::corrupt_file, why, "write the file again with whence record",
              {.file = file, .stage = "read", .source = pointer});
}

void Cell::corrupt(const std::string& why) const {
  text_.corrupt("/" + std::string(table_) + "/rows/" + std::to_string(row_) + "/" + std::to_string(column_), why);
}

std::int64_t Cell::integer(std::int64_t minimum, std::int64_t maximum) const {
  if (!json_.is_integer()) corrupt("expected an integer");
  const bool beyond = json_.is_unsigned() && json_.unsigned_integer() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t value = beyond ? INT64_MAX : json_.integer();
  if (beyond || value < minimum || value > maximum) {
    corrupt(json_.to_json().dump() + " is not within " + std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return value;
}

std::int32_t Cell::index(std::size_t count) const {
  const auto value = static_cast<std::int32_t>(integer(0, std::numeric_limits<std::int32_t>::max()));
  if (static_cast<std::size_t>(value) >= count) {
    corrupt("refers to number " + std::to_string(value) + " of " + std::to_string(count));
  }
  return value;
}

std::int32_t Cell::index_or_none(std::size_t count) const {
  return json_.is_integer() && json_.integer() == none_id ? none_id : index(count);
}

double Cell::floating() const {
  if (json_.is_number()) return json_.floating();
  const std::string_view name = word();
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  corrupt("expected a number, \"inf\", \"-inf\" or \"nan\"");
}

bool Cell::flag() const {
  if (!json_.is_boolean()) corrupt("expected true or false");
  return json_.flag();
}

const std::string& Cell::text() const { return text_.strings[static_cast<std::size_t>(index(text_.strings.size()))]; }

std::string_view Cell::word() const {
  if (!json_.is_string()) corrupt("expected a string");
  return json_.text();
}

std::string_view Cell::word_or_null() const { return json_.is_null() ? std::string_view() : word(); }

std::size_t Cell::position_in(std::span<const std::string_view> words) const {
  const auto found = std::find(words.begin(), words.end(), word());
  if (found == words.end()) corrupt("'" + std::string(word()) + "' is not a word of this column");
  return static_cast<std::size_t>(found - words.begin());
}

DType Cell::dtype() const {
  if (word() == name_of(DType::undefined)) return DType::undefined;
  const auto dtype = parse_dtype(word());
  if (!dtype || name_of(*dtype) != word()) corrupt("'" + std::string(word()) + "' is not a dtype");
  return *dtype;
}

std::size_t Cell::length() const {
  if (!json_.is_array()) corrupt("expected a list");
  return json_.size();
}

std::vector<std::int64_t> Cell::sizes() const {
  std::vector<std::int64_t> items(length());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = element(i).size();
  return items;
}

std::vector<std::string> Cell::texts() const {
  std::vector<std::string> items(length());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = element(i).text();
  return items;
}

Argument Cell::argument(std::size_t value_count) const {
  if (json_.is_null()) return {None{}};
  if (json_.is_boolean()) return {json_.flag()};
  if (json_.is_integer()) return {integer(INT64_MIN, INT64_MAX)};
  if (json_.is_object()) return marked_argument(value_count);
  ArgumentList list(length());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = element(i).argument(value_count);
  return {std::move(list)};
}

Argument Cell::marked_argument(std::size_t value_count) const {
  if (json_.size() != 1) corrupt("expected an argument with one mark");
  const std::string_view mark = json_.key(0);
  const Cell content(text_, json_.member(0), table_, row_, column_);
  if (mark == "value") return {ValueRef{ValueId(content.index(value_count))}};
  if (mark == "float") return {content.floating()};
  if (mark == "string") return {content.text()};
  if (mark == "dtype") return {content.dtype()};
  if (mark == "keyword") return {Keyword{content.text()}};
  if (mark == "complex" && content.length() == 2) {
    return {ComplexNumber{content.element(0).floating(), content.element(1).floating()}};
  }
  corrupt("'" + std::string(mark) + "' does not mark an argument");
}

TableReader::TableReader(const SidecarText& text, JsonValue document, const sidecar_form::Table& form)
    : text_(text), form_(form) {
  const std::string pointer = "/" + std::string(form.name);
  const auto table = document.find(form.name);
  if (!table) text.corrupt(pointer, "the table is missing");
  const auto columns = table->find("columns"), rows = table->find("rows");
  if (!columns || !rows) text.corrupt(pointer, "expected a table: an object with columns and rows");
  columns_ = *columns;
  const std::size_t known = std::min(columns_.size(), form.columns.size());
  const auto same = [&](std::size_t i) { return columns_[i].is_string() && columns_[i].text() == form.columns[i]; };
  if (!columns_.is_array() || known + form.optional_columns < form.columns.size() ||
      !std::ranges::all_of(std::views::iota(std::size_t{0}, known), same)) {
    text.corrupt(pointer + "/columns", "expected the columns " + Json(form.columns).dump());
  }
  rows_ = *rows;
  if (!rows_.is_array()) text.corrupt(pointer + "/rows", "expected a list of rows");
  if (rows_.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    text.corrupt(pointer + "/rows", "more rows than a 32-bit number can count");
  }
}

RowReader TableReader::row(std::size_t i) const {
  const JsonValue cells = rows_[i];
  if (!cells.is_array() || cells.size() != columns_.size()) {
    text_.corrupt("/" + std::string(form_.name) + "/rows/" + std::to_string(i),
                  "expected a row of " + std::to_string(columns_.size()) + " cells");
  }
  return {text_, cells, form_.name, i};
}

Json TableReader::unknown_columns() const {
  const std::size_t known = form_.columns.size();
  if (columns_.size() <= known) return nullptr;
  const auto cells_after_known = [&](JsonValue cells) {
    Json unknown = Json::array();
    for (std::size_t i = known; i < cells.size(); ++i) unknown.push_back(cells[i].to_json());
    return unknown;
  };
  Json rows = Json::array();
  for (std::size_t i = 0; i < rows_.size(); ++i) rows.push_back(cells_after_known(rows_[i]));
  return {{"columns", cells_after_known(columns_)}, {"rows", std::move(rows)}};
}

}  // namespace whence
