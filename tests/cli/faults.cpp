// Loaded into a process by LD_PRELOAD: counts the calls to the system on files of one folder, and lets something happen
// at one of them.
//
//   $WHENCE_FAULT_FOLDER  the folder; calls on other files are not counted
//   $WHENCE_FAULT_LOG     a file that gets a line for each counted call: "3 rename /tmp/x/.whence-7-0.part"
//   $WHENCE_FAULT         "kill 3"    the process dies before the third call
//                         "stop 3"    it is stopped there until somebody continues it
//                         "SIGTERM 3" it gets the signal there
//                         "EIO 3"     the third call fails so
//                         "short 3"   the third call moves half of the bytes; of mmap, the file loses all of its own
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum class Fault { none, fail, shortened };

template <typename Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Asked at each call: a process that was forked gets an environment of its own later.
std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string link_of(const std::string& link) {
  std::array<char, 4096> path{};
  const long size = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return size < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(size));
}

std::string path_of(int fd) { return link_of("/proc/self/fd/" + std::to_string(fd)); }

std::string path_of(int folder, const char* path) {
  if (path == nullptr) return "";
  if (*path == '/') return path;
  return (folder == AT_FDCWD ? link_of("/proc/self/cwd") : path_of(folder)) + "/" + path;
}

const std::array<std::pair<const char*, int>, 10> errors = {{{"EIO", EIO},
                                                             {"EACCES", EACCES},
                                                             {"ENOSPC", ENOSPC},
                                                             {"EINTR", EINTR},
                                                             {"ENOMEM", ENOMEM},
                                                             {"EMFILE", EMFILE},
                                                             {"ENOLCK", ENOLCK},
                                                             {"EPERM", EPERM},
                                                             {"EXDEV", EXDEV},
                                                             {"EROFS", EROFS}}};

void write_log(const std::string& line) {
  const std::string log = setting("WHENCE_FAULT_LOG");
  const long fd = syscall(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) return;
  syscall(SYS_write, fd, line.data(), line.size());
  syscall(SYS_close, fd);
}

// Counts the call and lets happen what was chosen.
Fault meet(const char* call, const std::string& path) {
  static int count = 0;
  const int before = errno;
  const std::string folder = setting("WHENCE_FAULT_FOLDER");
  if (folder.empty() || path.compare(0, folder.size(), folder) != 0) {
    errno = before;
    return Fault::none;
  }
  ++count;
  if (!setting("WHENCE_FAULT_LOG").empty()) write_log(std::to_string(count) + " " + call + " " + path + "\n");
  const std::string fault = setting("WHENCE_FAULT");
  const std::size_t space = fault.find(' ');
  errno = before;
  if (space == std::string::npos || std::atoi(fault.c_str() + space) != count) return Fault::none;
  const std::string kind = fault.substr(0, space);
  if (kind == "kill") kill(getpid(), SIGKILL);
  if (kind == "stop") kill(getpid(), SIGSTOP);
  if (kind == "SIGTERM") raise(SIGTERM);
  if (kind == "short") return Fault::shortened;
  for (const auto& [name, number] : errors) {
    if (kind != name) continue;
    errno = number;
    return Fault::fail;
  }
  return Fault::none;
}

std::size_t moved(Fault fault, std::size_t count) { return fault == Fault::shortened && count > 1 ? count / 2 : count; }

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define FAIL_IF_MET(call, path, failure) \
  if (meet(call, path) == Fault::fail) return failure

extern "C" {

#define OPEN(name)                                                             \
  int name(const char* path, int flags, ...) {                                 \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_of(flags, arguments);                             \
    va_end(arguments);                                                         \
    FAIL_IF_MET("open", path_of(AT_FDCWD, path), -1);                          \
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode)); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                         \
  int name(int folder, const char* path, int flags, ...) {                   \
    va_list arguments;                                                       \
    va_start(arguments, flags);                                              \
    const mode_t mode = mode_of(flags, arguments);                           \
    va_end(arguments);                                                       \
    FAIL_IF_MET("open", path_of(folder, path), -1);                          \
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  const Fault fault = meet("close", path_of(fd));
  const int error = errno;
  const long result = syscall(SYS_close, fd);
  errno = error;
  return fault == Fault::fail ? -1 : static_cast<int>(result);
}

ssize_t write(int fd, const void* data, size_t count) {
  const Fault fault = meet("write", path_of(fd));
  return fault == Fault::fail ? -1 : syscall(SYS_write, fd, data, moved(fault, count));
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  FAIL_IF_MET("writev", path_of(fd), -1);
  return syscall(SYS_writev, fd, pieces, count);
}

ssize_t read(int fd, void* data, size_t count) {
  const Fault fault = meet("read", path_of(fd));
  return fault == Fault::fail ? -1 : syscall(SYS_read, fd, data, moved(fault, count));
}

#define PREAD(name)                                                                             \
  ssize_t name(int fd, void* data, size_t count, off_t at) {                                    \
    const Fault fault = meet("pread", path_of(fd));                                             \
    return fault == Fault::fail ? -1 : syscall(SYS_pread64, fd, data, moved(fault, count), at); \
  }
PREAD(pread)
PREAD(pread64)

ssize_t copy_file_range(int from, off64_t* at, int to, off64_t* offset, size_t count, unsigned flags) {
  const Fault fault = meet("copy_file_range", path_of(to));
  if (fault == Fault::fail) return -1;
  return syscall(SYS_copy_file_range, from, at, to, offset, moved(fault, count), flags);
}

ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  const Fault fault = meet("sendfile", path_of(to));
  return fault == Fault::fail ? -1 : syscall(SYS_sendfile, to, from, offset, moved(fault, count));
}

int fsync(int fd) {
  FAIL_IF_MET("fsync", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

int flock(int fd, int operation) noexcept {
  FAIL_IF_MET("flock", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

#define TRUNCATE(name)                                         \
  int name(int fd, off_t size) noexcept {                      \
    FAIL_IF_MET("ftruncate", path_of(fd), -1);                 \
    return static_cast<int>(syscall(SYS_ftruncate, fd, size)); \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int rename(const char* from, const char* to) noexcept {
  FAIL_IF_MET("rename", path_of(AT_FDCWD, from) + " " + path_of(AT_FDCWD, to), -1);
  return static_cast<int>(syscall(SYS_rename, from, to));
}

int renameat(int folder, const char* from, int other, const char* to) noexcept {
  FAIL_IF_MET("rename", path_of(folder, from) + " " + path_of(other, to), -1);
  return static_cast<int>(syscall(SYS_renameat, folder, from, other, to));
}

int link(const char* from, const char* to) noexcept {
  FAIL_IF_MET("link", path_of(AT_FDCWD, from) + " " + path_of(AT_FDCWD, to), -1);
  return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  FAIL_IF_MET("unlink", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_unlink, path));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  FAIL_IF_MET("unlink", path_of(folder, path), -1);
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int remove(const char* path) noexcept {
  FAIL_IF_MET("unlink", path_of(AT_FDCWD, path), -1);
  return real("remove", remove)(path);
}

int rmdir(const char* path) noexcept {
  FAIL_IF_MET("rmdir", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_rmdir, path));
}

int mkdir(const char* path, mode_t mode) noexcept {
  FAIL_IF_MET("mkdir", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_mkdir, path, mode));
}

int chmod(const char* path, mode_t mode) noexcept {
  FAIL_IF_MET("chmod", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_chmod, path, mode));
}

int fchmod(int fd, mode_t mode) noexcept {
  FAIL_IF_MET("chmod", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_fchmod, fd, mode));
}

DIR* opendir(const char* path) {
  FAIL_IF_MET("opendir", path_of(AT_FDCWD, path), nullptr);
  return real("opendir", opendir)(path);
}

#define MMAP(name)                                                                              \
  void* name(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept { \
    const Fault fault = fd < 0 ? Fault::none : meet("mmap", path_of(fd));                       \
    if (fault == Fault::fail) return MAP_FAILED;                                                \
    const long mapped = syscall(SYS_mmap, at, size, protection, flags, fd, offset);             \
    if (fault == Fault::shortened) truncate(path_of(fd).c_str(), 0);                            \
    return reinterpret_cast<void*>(mapped);                                                     \
  }
MMAP(mmap)
MMAP(mmap64)

#define STAT(name)                                           \
  int name(const char* path, struct stat* status) noexcept { \
    FAIL_IF_MET("stat", path_of(AT_FDCWD, path), -1);        \
    return real(#name, name)(path, status);                  \
  }
STAT(stat)
STAT(lstat)

int fstat(int fd, struct stat* status) noexcept {
  FAIL_IF_MET("fstat", path_of(fd), -1);
  return real("fstat", fstat)(fd, status);
}

}  // extern "C"
