#include "annotator/profile/amount_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "annotator/text/table.h"

namespace whence::profile {

std::string_view shown_unit(Unit unit) { return unit == Unit::microseconds ? "ms" : name_of(unit); }

std::string amount_text(std::int64_t amount, std::int64_t runs, Unit unit) {
  const double each = static_cast<double>(amount) / static_cast<double>(runs);
  if (unit != Unit::microseconds) return text::grouped(std::llround(each));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", each / 1000);
  return text.data();
}

}  // namespace whence::profile
