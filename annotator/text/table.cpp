#include "annotator/text/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace whence::text {
namespace {

// Returns the columns on a terminal, counting every code point as one: exact for the names that occur.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-'; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string number_or_blank(std::int64_t number) { return number == 0 ? "" : grouped(number); }

std::string percent(double share) {
  const double tenths = share >= 1 ? 1000 : std::min(999.0, std::round(share * 1000));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", tenths / 10);
  return text.data();
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

void Table::header(std::vector<std::string> titles) {
  std::vector<Cell> cells;
  for (std::string& title : titles) cells.emplace_back(std::move(title), palette_.bold);
  row(std::move(cells));
}

void Table::row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i].text));
  }
  std::string out;
  for (const auto& row : rows_) {
    out += indent_;
    std::string blanks;  // pending, so that no line ends with blanks
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i].text), ' ');
      if (columns_[i] == Align::right) blanks += padding;
      if (!row[i].text.empty()) {
        out += blanks;
        blanks.clear();
        out += row[i].style;
        out += row[i].text;
        if (!row[i].style.empty()) out += palette_.reset;
      }
      if (columns_[i] == Align::left) blanks += padding;
      blanks += "  ";
    }
    out += '\n';
  }
  return out;
}

}  // namespace whence::text
