#include "schema/source_stack.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace whence {
namespace {

// True for PyTorch's call machinery, which is not part of the model.
bool is_machinery(const Frame& frame) { return frame.file.ends_with("torch/nn/modules/module.py"); }

// Parses 'File "a.py", line 12, in forward'.
std::optional<Frame> frame_of(std::string_view line) {
  constexpr std::string_view start = "File \"", middle = "\", line ", end = ", in ";
  const std::size_t first = line.find(start), number = line.rfind(middle), name = line.rfind(end);
  if (first == std::string_view::npos || number == std::string_view::npos || name == std::string_view::npos) return {};
  if (line.find_first_not_of(' ') != first || number < first + start.size() || name < number + middle.size()) return {};
  Frame frame;
  frame.file = line.substr(first + start.size(), number - first - start.size());
  const std::string_view digits = line.substr(number + middle.size(), name - number - middle.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), frame.line).ec != std::errc()) return {};
  frame.function = line.substr(name + end.size());
  return frame;
}

// Adds a source line, which follows the frame's line and is indented by four blanks. A statement may have several
// lines.
void add_text(std::string_view line, Frame& frame) {
  constexpr std::string_view indentation = "    ";
  if (line.starts_with(indentation)) line.remove_prefix(indentation.size());
  if (!frame.text.empty()) frame.text += '\n';
  frame.text += line;
}

}  // namespace

bool is_generated(const Frame& frame) { return frame.file.starts_with("<eval_with_key>"); }

std::string source_place(const Stack& stack) {
  const auto written = std::ranges::find_if_not(stack, is_generated);
  return written == stack.end() ? std::string() : source_place(*written);
}

Stack read_python_trace(std::string_view text) {
  Stack stack;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (auto frame = frame_of(line)) {
      stack.push_back(std::move(*frame));
    } else if (!stack.empty()) {
      add_text(line, stack.back());
    }
  }
  std::erase_if(stack, is_machinery);
  std::ranges::reverse(stack);
  return stack;
}

}  // namespace whence
