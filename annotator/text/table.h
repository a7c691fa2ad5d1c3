// Aligned tables of text for a terminal, with colour if the caller's palette has it. Names come from untrusted files:
// control characters are shown as escapes and never reach the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/printable.h"

namespace whence::text {

// ANSI sequences; all empty by default, which gives plain text.
struct Palette {
  std::string_view bold, dim, red, yellow, green, reset;
};

std::string grouped(std::int64_t number);                       // 4,385,920
std::string number_or_blank(std::int64_t number);               // grouped(), but empty for 0
std::string share_text(std::int64_t part, std::int64_t whole);  // part / whole as a percentage; empty for a whole of 0
std::string percent(double share);                              // 0.875 -> "87.5 %"; never rounds up to 100

struct Cell {
  Cell(std::string text, std::string_view style = {}) : text(shown(text)), style(style) {}  // NOLINT: cells are texts
  Cell(const char* text) : Cell(std::string(text)) {}                                       // NOLINT
  std::string text;
  std::string_view style;  // one of a Palette's sequences, or empty
};

enum class Align { left, right };

class Table {
 public:
  Table(const Palette& palette, std::vector<Align> columns, std::string indent = "")
      : palette_(palette), columns_(std::move(columns)), indent_(std::move(indent)) {}

  void header(std::vector<std::string> titles);
  void row(std::vector<Cell> cells);  // with fewer cells than columns, the last columns stay empty
  std::string text() const;           // every line ends with '\n' and has no trailing blanks

 private:
  Palette palette_;
  std::vector<Align> columns_;
  std::string indent_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace whence::text
