// Rows of a file of separated values, quoted cells included (RFC 4180), columns by the names in the first row.
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

  // Goes to the next row; false behind the last. Rows without a cell are passed over.
  bool next();

  // The cell of this row; none when the row ends before it.
  std::optional<std::string> at(std::string_view column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end() || found->second >= cells_.size()) return std::nullopt;
    return cells_[found->second];
  }
  std::size_t row() const { return row_; }  // counted from 1, the names of columns included

 private:
  std::string_view text_;
  char separator_;
  std::vector<std::string> cells_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::size_t row_ = 0;
};

}  // namespace whence::profile
