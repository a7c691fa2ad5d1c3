// Preloaded into the command (LD_PRELOAD) to inject defects. $WHENCE_TEST_FAULT selects the fault: a number is the
// signal to raise just before a result is renamed to its final name.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

bool is_fault(const char* fault) {
  const char* value = std::getenv("WHENCE_TEST_FAULT");
  return value != nullptr && std::strcmp(value, fault) == 0;
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  const char* value = std::getenv("WHENCE_TEST_FAULT");
  if (value != nullptr && std::atoi(value) > 0) std::raise(std::atoi(value));
  return reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"))(from, to);
}

// "sent": another process sends a signal while an archive is opened.
void send_signal() {
  if (fork() == 0) {
    kill(getppid(), SIGABRT);
    _exit(0);
  }
  pause();
}

// "shorten": a file is emptied right after it is mapped for reading, as if another process rewrote it.
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  using Map = void* (*)(void*, size_t, int, int, int, off_t);
  static const auto real = reinterpret_cast<Map>(dlsym(RTLD_NEXT, "mmap"));
  void* data = real(at, size, protection, flags, fd, offset);
  struct stat status {};
  if (fd >= 0 && protection == PROT_READ && is_fault("shorten") && fstat(fd, &status) == 0) {
    char link[64], path[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 5) {
      path[length] = '\0';
      if (std::strcmp(path + length - 5, ".onnx") == 0 && truncate(path, 0) != 0) std::abort();
    }
  }
  if (fd >= 0 && protection == (PROT_READ | PROT_WRITE) && (flags & MAP_PRIVATE) != 0 && is_fault("sent"))
    send_signal();
  return data;
}

}  // extern "C"

// "throw": throws an unexpected exception where the command compares the paths of its files.
#define WEAKLY_CANONICAL "_ZNSt10filesystem16weakly_canonicalERKNS_7__cxx114pathERSt10error_code"
using std::filesystem::path;
path weakly_canonical(const path& file, std::error_code& error) asm(WEAKLY_CANONICAL);
path weakly_canonical(const path& file, std::error_code& error) {
  if (is_fault("throw")) throw std::runtime_error("an unexpected exception");
  using Real = path (*)(const path&, std::error_code&);
  return reinterpret_cast<Real>(dlsym(RTLD_NEXT, WEAKLY_CANONICAL))(file, error);
}
