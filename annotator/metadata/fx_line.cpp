#include "annotator/metadata/fx_line.h"

#include "annotator/origin/python_text.h"

namespace whence::metadata {

void FxLine::positional(std::string_view value) {
  origin::append_item(positional_, value);
  ++count_;
}

void FxLine::keyword(std::string_view name, std::string_view value) {
  origin::append_item(keywords_, name);
  keywords_.append(": ").append(value);
}

std::string FxLine::text(std::string_view name, int users, std::string_view target) const {
  std::string line = "%";
  line.append(name).append(" : [num_users=").append(std::to_string(users)).append("] = call_function[target=");
  line.append(target).append("](args = (").append(positional_);
  if (count_ == 1) line += ",";  // a tuple of one
  return line.append("), kwargs = {").append(keywords_).append("})");
}

}  // namespace whence::metadata
