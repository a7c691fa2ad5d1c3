// Locks between processes. The system releases them when the process ends, even if it is killed.
#pragma once

#include <string>

namespace whence {

enum class LockResult {
  acquired,
  busy,         // another process holds it
  unsupported,  // the file system has no locks
};

// Locks an open file for this process. Closing the file releases the lock.
LockResult try_lock(int fd);

// Lets only one process at a time rename files in a folder, so that a model always matches its weight files. Does
// nothing on a file system without folder locks.
class FolderLock {
 public:
  // Waits up to 20 seconds for another process, then throws Error(cannot_write).
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

  void sync() const;  // makes the names in the folder survive a power failure, if the file system can

 private:
  int fd_ = -1;
};

}  // namespace whence
