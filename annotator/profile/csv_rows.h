// Reads rows of separated values with quoted cells (RFC 4180); the first row names the columns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whence::profile {

class CsvRows {
 public:
  CsvRows(std::string_view text, char separator) : text_(text), separator_(separator) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // a byte order mark
    next();
    for (std::size_t i = 0; i < cells_.size(); ++i) columns_.emplace(cells_[i], i);
  }

  bool has(std::string_view column) const { return columns_.contains(column); }

  // Goes to the next row; returns false after the last. Skips empty rows.
  bool next();

  // Returns the cell of this row; nullopt if the row ends before it.
  std::optional<std::string> at(std::string_view column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end() || found->second >= cells_.size()) return std::nullopt;
    return cells_[found->second];
  }
  std::size_t row() const { return row_; }  // counted from 1, including the row of column names

 private:
  std::string_view text_;
  char separator_;
  std::vector<std::string> cells_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::size_t row_ = 0;
};

}  // namespace whence::profile
