#include "schema/files/temporary_names.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace whence {
namespace {

constexpr std::string_view beginning = ".whence-";

std::array<std::atomic<const char*>, 64> names{};
std::atomic<int> postponing{0}, postponed{0};

// An entry as the kernel gives it (getdents64): a handler cannot use readdir(), which allocates.
struct Entry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

void remove_files_in(int folder) {
  alignas(Entry) std::array<char, 4096> buffer;
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, folder, buffer.data(), buffer.size())) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer.data() + at);
      if (entry->type != DT_DIR) ::unlinkat(folder, entry->name, 0);
      at += entry->length;
    }
  }
}

void remove_folder(const char* path) {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  remove_files_in(folder);
  ::close(folder);
  ::rmdir(path);
}

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
  for (auto name = names.rbegin(); name != names.rend(); ++name) {  // a folder after those in it
    if (const char* path = name->load(); path != nullptr && ::unlink(path) != 0) remove_folder(path);
  }
}

std::string new_temporary_path(const std::string& folder, std::string_view ending) {
  static std::atomic<unsigned> counter{0};
  return folder + "/" + std::string(beginning) + std::to_string(::getpid()) + "-" + std::to_string(counter++) +
         std::string(ending);
}

bool is_temporary_name(std::string_view name, std::string_view ending) {
  return name.starts_with(beginning) && name.ends_with(ending);
}

bool is_draft_folder(const std::string& folder) {
  return std::string_view(folder).substr(folder.rfind('/') + 1).starts_with(beginning);
}

PostponedStops::PostponedStops() { ++postponing; }

PostponedStops::~PostponedStops() {
  if (--postponing > 0) return;
  if (const int signal = postponed.exchange(0)) ::raise(signal);
}

bool PostponedStops::stop_waits() { return postponed != 0; }

bool postpone_stop(int signal) {
  if (postponing == 0) return false;
  postponed = signal;
  return true;
}

}  // namespace whence
