#include "schema/files/source_root.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "schema/files/paths.h"
#include "schema/source_stack.h"

namespace whence {

namespace {

constexpr std::size_t max_attempts = 64;  // shorter and shorter ends of a recorded path are tried at the root

bool is_installed(std::string_view file) {
  constexpr std::array<std::string_view, 3> folders = {"/site-packages/", "/dist-packages/", "/lib/python3"};
  return std::ranges::any_of(folders, [&](std::string_view folder) { return file.find(folder) != file.npos; });
}

bool is_file(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_regular_file(path, failure);
}

std::string place_text(const Frame& frame, const std::string& file) {
  return file + ":" + std::to_string(frame.line) + (frame.function.empty() ? "" : " ") + frame.function;
}

}  // namespace

SourceRoot::SourceRoot(const std::string& folder) : root_(place_of(folder.empty() ? "." : folder)) {
  if (!root_.ends_with('/')) root_ += '/';
}

std::optional<std::string> SourceRoot::below(const std::string& file) const {
  const std::string place = place_of(file);
  if (!place.starts_with(root_) || place.size() == root_.size()) return std::nullopt;
  return place.substr(root_.size());
}

std::optional<std::string> SourceRoot::find(const std::string& source) const {
  if (source.empty() || source.front() == '<' || is_installed(source)) return std::nullopt;
  if (source.front() == '/') {
    if (auto path = below(source)) return path;
  }
  std::size_t start = source.front() == '/' ? 1 : 0;
  for (std::size_t tried = 0; tried < max_attempts; ++tried) {
    const std::string end = source.substr(start);
    if (is_file(root_ + end)) return below(root_ + end);
    const std::size_t slash = source.find('/', start);
    if (slash == std::string::npos) break;
    start = slash + 1;
  }
  return std::nullopt;
}

std::string SourceRoot::place_in(const Stack& stack) const {
  const Frame* innermost = nullptr;
  for (const Frame& frame : stack) {
    if (frame.file.empty() || is_generated(frame)) continue;
    if (const auto path = find(frame.file)) return place_text(frame, *path);
    if (innermost == nullptr) innermost = &frame;
  }
  return innermost == nullptr ? "" : place_text(*innermost, innermost->file);
}

}  // namespace whence
