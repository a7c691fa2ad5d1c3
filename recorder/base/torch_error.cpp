// Shortens PyTorch's messages to one line and throws refusals.
#include "recorder/base/torch_error.h"

#include "recorder/base/torch_pch.h"

namespace whence::recorder {

std::string first_line(const std::string& text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start == std::string::npos ? "" : text.substr(start, text.find('\n', start) - start);
}

std::string torch_message(const std::exception& error) {
  if (const auto* inner = dynamic_cast<const c10::Error*>(&error)) return first_line(inner->what_without_backtrace());
  return first_line(error.what());
}

void refuse(const std::string& why, const std::string& remedy) {
  throw Error(Code::unsupported_feature, first_line(why), remedy, {.stage = "read"});
}

}  // namespace whence::recorder
