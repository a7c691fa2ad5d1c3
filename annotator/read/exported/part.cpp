#include "annotator/read/exported/part.h"

#include <limits>

namespace whence {

double Part::number() const {
  if (json_.is_number()) return json_.get<double>();
  const std::string& name = text();
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  reading_.corrupt("'" + name + "' is no number");
}

}  // namespace whence
