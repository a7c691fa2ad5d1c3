// Locks between processes. They end with the process that holds them, however it ends, so that none is left behind.
#pragma once

#include <string>

namespace whence {

enum class LockResult {
  taken,
  busy,         // another process holds it
  unsupported,  // the file system has none
};

// Locks an open file for this process; it is unlocked when the file is closed.
LockResult try_lock(int fd);

// Files of one folder get their names from one process at a time: the weights that a model refers to are then those
// that were written with it. On a file system without locks for folders it does nothing.
class FolderLock {
 public:
  // Waits some seconds for another process. Throws Error(cannot_write) when that one does not end.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

  void sync() const;  // the names in the folder outlast a loss of power, where the file system can

 private:
  int fd_ = -1;
};

}  // namespace whence
