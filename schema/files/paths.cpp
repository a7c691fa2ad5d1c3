#include "schema/files/paths.h"

#include <filesystem>

namespace whence {

namespace fs = std::filesystem;

std::string place_of(const std::string& path) {
  std::error_code failure;
  // Makes the path absolute first: weakly_canonical keeps a relative path of a missing file relative.
  const fs::path absolute = fs::absolute(path, failure);
  if (failure) return "";
  const fs::path place = fs::weakly_canonical(absolute, failure);
  return failure ? "" : place.string();
}

bool same_file(const std::string& first, const std::string& second) {
  if (first.empty() || second.empty()) return false;
  std::error_code failure;
  if (fs::equivalent(first, second, failure)) return true;
  const std::string place = place_of(first);
  return !place.empty() && place == place_of(second);
}

}  // namespace whence
