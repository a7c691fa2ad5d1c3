#include "annotator/profile/csv_rows.h"

namespace whence::profile {

bool CsvRows::next() {
  do {
    if (text_.empty()) return false;
    ++row_;
    cells_.assign(1, "");
    bool quoted = false;
    std::size_t i = 0;
    for (; i < text_.size() && (quoted || text_[i] != '\n'); ++i) {
      const char c = text_[i];
      if (quoted && c == '"' && i + 1 < text_.size() && text_[i + 1] == '"') {
        cells_.back() += '"';
        ++i;
      } else if (c == '"' && (quoted || cells_.back().empty())) {
        quoted = !quoted;
      } else if (c == separator_ && !quoted) {
        cells_.emplace_back();
      } else {
        cells_.back() += c;
      }
    }
    text_.remove_prefix(i < text_.size() ? i + 1 : i);
    if (cells_.back().ends_with('\r')) cells_.back().pop_back();
  } while (cells_.size() == 1 && cells_.front().empty());
  return true;
}

}  // namespace whence::profile
