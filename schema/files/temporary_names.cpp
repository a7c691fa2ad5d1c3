// Names of temporary files, their removal by signal handlers, and postponed signals.
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

std::array<std::atomic<const char*>, 64> temporary_paths{};
std::atomic<int> postponing_objects{0}, postponed_signal{0};

// A directory entry of getdents64. A signal handler cannot use readdir(), which allocates.
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
  for (auto& name : temporary_paths) {
    const char* unused = nullptr;
    if (name.compare_exchange_strong(unused, path)) return;
  }
}

void forget_temporary(const char* path) {
  for (auto& name : temporary_paths) {
    const char* known = path;
    if (name.compare_exchange_strong(known, nullptr)) return;
  }
}

void remove_temporaries() {
  for (auto name = temporary_paths.rbegin(); name != temporary_paths.rend(); ++name) {  // files before their folder
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

PostponedStops::PostponedStops() { ++postponing_objects; }

PostponedStops::~PostponedStops() {
  if (--postponing_objects > 0) return;
  if (const int signal = postponed_signal.exchange(0)) ::raise(signal);
}

bool PostponedStops::is_stop_pending() { return postponed_signal != 0; }

bool postpone_stop(int signal) {
  if (postponing_objects == 0) return false;
  postponed_signal = signal;
  return true;
}

}  // namespace whence
