#include "tools/whence/pager.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whence {
namespace {

// Quietly none where there is no less.
constexpr const char* default_pager = "command -v less >/dev/null || exit 127; exec less -FRX";

// Rows that the text takes on a terminal of so many columns. Escape sequences count for nothing.
std::size_t rows_of(const std::string& text, std::size_t columns) {
  std::size_t rows = 0, width = 0;
  bool escape = false;
  for (const char c : text) {
    if (c == '\n') {
      rows += std::max<std::size_t>(1, (width + columns - 1) / columns);
      width = 0;
    } else if (c == '\033') {
      escape = true;
    } else if (escape) {
      escape = c != 'm';
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {  // one for each code point
      ++width;
    }
  }
  return rows;
}

bool fits_screen(const std::string& text) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return true;
  return rows_of(text, size.ws_col) < size.ws_row;  // the prompt takes one
}

// False when there was no such program, which then showed nothing.
bool page(const std::string& text, const std::string& command) {
  std::cout.flush();
  std::FILE* const pipe = popen(command.c_str(), "w");
  if (pipe == nullptr) return false;
  // Both are for the pager: an interrupt is a command to it, and it may be left before the end.
  const auto interrupt = std::signal(SIGINT, SIG_IGN), broken = std::signal(SIGPIPE, SIG_IGN);
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = pclose(pipe);
  std::signal(SIGINT, interrupt);
  std::signal(SIGPIPE, broken);
  return !(WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127));
}

}  // namespace

void declare_pager(CommandLine& line) { line.flag("no-pager", "print at once, also what is longer than the screen"); }

void print_paged(const std::string& text, const CommandLine& line) {
  const char* const chosen = std::getenv("PAGER");
  const std::string command = chosen == nullptr ? default_pager : chosen;
  const bool wanted = isatty(STDOUT_FILENO) != 0 && !line.has("no-pager") && !command.empty() && command != "cat";
  if (!wanted || fits_screen(text) || !page(text, command)) std::cout << text;
}

}  // namespace whence
