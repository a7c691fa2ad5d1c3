#include "annotator/pt2/part.h"

#include <array>
#include <limits>

namespace whence::pt2 {

double Part::number() const {
  if (value_.is_number()) return value_.floating();
  const std::string_view name = view();
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  reading_.corrupt("'" + text() + "' is not a number");
}

void Part::wrong(const char* expected) const {
  constexpr std::array<const char*, 8> kinds = {"null",     "a truth value", "an integer", "a number",
                                                "a number", "a string",      "a list",     "an object"};
  reading_.corrupt(std::string("expected ") + expected + ", found " + kinds[static_cast<std::size_t>(value_.kind())]);
}

void Part::missing(const char* key) const { reading_.corrupt(std::string("'") + key + "' is missing"); }

}  // namespace whence::pt2
