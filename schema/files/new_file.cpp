#include "schema/files/new_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files/locks.h"
#include "schema/files/temporary_names.h"
#include "schema/result.h"

namespace whence {
namespace {

std::string remedy_for(int error, const std::string& target) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (::access(folder_of(target).c_str(), F_OK) == 0) return "choose another folder: this one takes no files";
      return "make the folder first: mkdir -p " + folder_of(target);
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a folder that you may write to";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "remove the symbolic link, or name another file";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space on the disk, or write to another one";
    default:
      return "write to another folder or disk";
  }
}

// Returns false if a process that removes leftovers has locked or removed the file in the meantime.
bool lock_new_file(int fd) {
  struct stat status{};
  return try_lock(fd) != LockResult::busy && ::fstat(fd, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string remedy_for_reading(int error) {
  switch (error) {
    case ELOOP:
      return "point the symbolic link at a file, or name the file itself";
    case ENAMETOOLONG:
      return "use a shorter path";
    case ENOENT:
    case ENOTDIR:
      return "check the name, or use its full path";
    default:
      return "check its permissions";
  }
}

void fail_to_write(const std::string& target, int error) {
  throw Error(Code::cannot_write, target + ": " + std::strerror(error), remedy_for(error, target),
              {.file = target, .stage = "write"});
}

int create_locked(const std::string& folder, std::string_view ending, std::string& created) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    created = new_temporary_path(folder, ending);
    const int fd = ::open(created.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 && lock_new_file(fd)) return fd;
    if (fd >= 0) {
      ::unlink(created.c_str());
      ::close(fd);
    } else if (errno != EEXIST && errno != EINTR) {
      return -1;
    }
  }
  return -1;
}

void write_all(int fd, const char* data, std::size_t size, const std::string& target) {
  while (size > 0) {
    const ssize_t put = ::write(fd, data, std::min(size, max_transfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_to_write(target, errno);
    data += put;
    size -= static_cast<std::size_t>(put);
  }
}

void sync_file(int fd, const std::string& target) {
  while (::fsync(fd) != 0) {
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return;  // the file system does not support sync
    if (errno != EINTR) fail_to_write(target, errno);
  }
}

}  // namespace whence
