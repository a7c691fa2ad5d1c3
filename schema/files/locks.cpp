// File and folder locks with flock().
#include "schema/files/locks.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "schema/result.h"

namespace whence {
namespace {

using namespace std::chrono_literals;

constexpr auto lock_timeout = 20s;
constexpr auto retry_interval = 5ms;

}  // namespace

LockResult try_lock(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return LockResult::busy;
    if (errno != EINTR) return LockResult::unsupported;
  }
  return LockResult::acquired;
}

// A folder that may be written to but not listed cannot be opened, so it is not locked.
FolderLock::FolderLock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) return;
  const auto end = std::chrono::steady_clock::now() + lock_timeout;
  while (try_lock(fd_) == LockResult::busy) {
    if (std::chrono::steady_clock::now() > end) {
      ::close(fd_);
      throw Error(Code::cannot_write, "another process has been writing in " + folder + " for a long time",
                  "end any suspended whence process that writes there, and run the command again",
                  {.file = folder, .stage = "write"});
    }
    std::this_thread::sleep_for(retry_interval);
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

void FolderLock::sync() const {
  while (fd_ >= 0 && ::fsync(fd_) != 0 && errno == EINTR) {
  }
}

}  // namespace whence
