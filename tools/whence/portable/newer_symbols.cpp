// Functions that the objects of a newer compiler and libc ask for, and GLIBC_2.34 and GLIBCXX_3.4.29 lack, which is all
// that the recorder's wheel may need: defined here, they are asked of no library.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <sys/random.h>

namespace std {

// Called by _GLIBCXX_ASSERTIONS where an index lies beyond its list.
[[noreturn]] void __glibcxx_assert_fail(const char* file, int line, const char* function,
                                        const char* condition) noexcept {
  if (file != nullptr) std::fprintf(stderr, "%s:%d: %s: Assertion '%s' failed.\n", file, line, function, condition);
  std::abort();
}

}  // namespace std

// Random bytes for the hash tables of expat.
extern "C" void arc4random_buf(void* buffer, std::size_t size) noexcept {
  auto* at = static_cast<unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t count = getrandom(at, size, 0);
    if (count < 0) std::abort();
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}
