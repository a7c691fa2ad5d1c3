// Defines functions that objects from a newer compiler and libc call. The recorder's wheel must run with GLIBC_2.34 and
// GLIBCXX_3.4.29, which lack these functions.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <sys/random.h>

namespace std {

// Called by _GLIBCXX_ASSERTIONS if an index is out of range.
[[noreturn]] void __glibcxx_assert_fail(const char* file, int line, const char* function,
                                        const char* condition) noexcept {
  if (file != nullptr) std::fprintf(stderr, "%s:%d: %s: Assertion '%s' failed.\n", file, line, function, condition);
  std::abort();
}

}  // namespace std

// Called by expat for random bytes for its hash tables.
extern "C" void arc4random_buf(void* buffer, std::size_t size) noexcept {
  auto* at = static_cast<unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t count = getrandom(at, size, 0);
    if (count < 0) std::abort();
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}
