// Content digests: 128-bit XXH3, inlined.
#define XXH_INLINE_ALL
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include "schema/files/files.h"

namespace whence {
namespace {

std::string hex(XXH128_hash_t hash) {
  constexpr std::string_view digits = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (const unsigned char byte : canonical.digest) text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}

Error unreadable(const std::string& path, int error) {
  return Error(Code::missing_file, path + ": " + std::strerror(error), "check the file's name and its permissions",
               {.file = path, .stage = "read"});
}

}  // namespace

std::string digest_of(const void* data, std::size_t size) { return hex(XXH3_128bits(data, size)); }

std::string digest_of_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw unreadable(path, errno);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::vector<char> buffer(std::size_t{1} << 20);
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    XXH3_128bits_update(&state, buffer.data(), static_cast<std::size_t>(got));
  }
  const int error = errno;
  ::close(fd);
  if (got < 0) throw unreadable(path, error);
  return hex(XXH3_128bits_digest(&state));
}

}  // namespace whence
