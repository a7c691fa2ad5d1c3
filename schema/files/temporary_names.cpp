#include "schema/files/temporary_names.h"

#include <array>
#include <atomic>

#include <unistd.h>

namespace whence {
namespace {

std::array<std::atomic<const char*>, 64> names{};

}  // namespace

void remember_temporary(const char* path) {
  for (auto& name : names) {
    const char* unused = nullptr;
    if (name.compare_exchange_strong(unused, path)) return;
  }
}

void forget_temporary(const char* path) {
  for (auto& name : names) {
    const char* known = path;
    if (name.compare_exchange_strong(known, nullptr)) return;
  }
}

void remove_temporaries() {
  for (const auto& name : names) {
    if (const char* path = name.load()) ::unlink(path);
  }
  for (const auto& name : names) {
    if (const char* path = name.load()) ::rmdir(path);
  }
}

}  // namespace whence
