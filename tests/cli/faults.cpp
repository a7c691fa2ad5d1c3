// Preloaded into a process (LD_PRELOAD): counts the system calls on files of one folder, and injects a fault into one
// of them.
//
//   $WHENCE_FAULT_FOLDER  the folder; calls on other files are not counted
//   $WHENCE_FAULT_LOG     receives a line for each counted call: "3 rename /tmp/x/.whence-7-0.part"
//   $WHENCE_FAULT         "kill 3"    the process dies before the third call
//                         "stop 3"    the process stops there until SIGCONT
//                         "SIGTERM 3" the process receives the signal there
//                         "EIO 3"     the third call fails with this error
//                         "short 3"   the third call transfers half of the bytes; an mmap empties the file instead
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

// Reads the environment at each call: a forked process sets its own variables later.
std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string link_target(const std::string& link) {
  std::array<char, 4096> path{};
  const long size = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return size < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(size));
}

std::string path_of(int fd) { return link_target("/proc/self/fd/" + std::to_string(fd)); }

std::string path_of(int folder, const char* path) {
  if (path == nullptr) return "";
  if (*path == '/') return path;
  return (folder == AT_FDCWD ? link_target("/proc/self/cwd") : path_of(folder)) + "/" + path;
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

// Counts the call. Returns or triggers the fault if $WHENCE_FAULT names this call.
Fault inject_fault(const char* call, const std::string& path) {
  static int count = 0;
  const int saved_errno = errno;
  const std::string folder = setting("WHENCE_FAULT_FOLDER");
  if (folder.empty() || path.compare(0, folder.size(), folder) != 0) {
    errno = saved_errno;
    return Fault::none;
  }
  ++count;
  if (!setting("WHENCE_FAULT_LOG").empty()) write_log(std::to_string(count) + " " + call + " " + path + "\n");
  const std::string fault = setting("WHENCE_FAULT");
  const std::size_t space = fault.find(' ');
  errno = saved_errno;
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

std::size_t byte_count(Fault fault, std::size_t count) {
  return fault == Fault::shortened && count > 1 ? count / 2 : count;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define RETURN_IF_FAILED(call, path, failure) \
  if (inject_fault(call, path) == Fault::fail) return failure

extern "C" {

#define OPEN(name)                                                             \
  int name(const char* path, int flags, ...) {                                 \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_of(flags, arguments);                             \
    va_end(arguments);                                                         \
    RETURN_IF_FAILED("open", path_of(AT_FDCWD, path), -1);                     \
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
    RETURN_IF_FAILED("open", path_of(folder, path), -1);                     \
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  const Fault fault = inject_fault("close", path_of(fd));
  const int error = errno;
  const long result = syscall(SYS_close, fd);
  errno = error;
  return fault == Fault::fail ? -1 : static_cast<int>(result);
}

ssize_t write(int fd, const void* data, size_t count) {
  const Fault fault = inject_fault("write", path_of(fd));
  return fault == Fault::fail ? -1 : syscall(SYS_write, fd, data, byte_count(fault, count));
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  RETURN_IF_FAILED("writev", path_of(fd), -1);
  return syscall(SYS_writev, fd, pieces, count);
}

ssize_t read(int fd, void* data, size_t count) {
  const Fault fault = inject_fault("read", path_of(fd));
  return fault == Fault::fail ? -1 : syscall(SYS_read, fd, data, byte_count(fault, count));
}

#define PREAD(name)                                                                                  \
  ssize_t name(int fd, void* data, size_t count, off_t at) {                                         \
    const Fault fault = inject_fault("pread", path_of(fd));                                          \
    return fault == Fault::fail ? -1 : syscall(SYS_pread64, fd, data, byte_count(fault, count), at); \
  }
PREAD(pread)
PREAD(pread64)

ssize_t copy_file_range(int from, off64_t* at, int to, off64_t* offset, size_t count, unsigned flags) {
  const Fault fault = inject_fault("copy_file_range", path_of(to));
  if (fault == Fault::fail) return -1;
  return syscall(SYS_copy_file_range, from, at, to, offset, byte_count(fault, count), flags);
}

ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  const Fault fault = inject_fault("sendfile", path_of(to));
  return fault == Fault::fail ? -1 : syscall(SYS_sendfile, to, from, offset, byte_count(fault, count));
}

int fsync(int fd) {
  RETURN_IF_FAILED("fsync", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

int flock(int fd, int operation) noexcept {
  RETURN_IF_FAILED("flock", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

#define TRUNCATE(name)                                         \
  int name(int fd, off_t size) noexcept {                      \
    RETURN_IF_FAILED("ftruncate", path_of(fd), -1);            \
    return static_cast<int>(syscall(SYS_ftruncate, fd, size)); \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int rename(const char* from, const char* to) noexcept {
  RETURN_IF_FAILED("rename", path_of(AT_FDCWD, from) + " " + path_of(AT_FDCWD, to), -1);
  return static_cast<int>(syscall(SYS_rename, from, to));
}

int renameat(int folder, const char* from, int other, const char* to) noexcept {
  RETURN_IF_FAILED("rename", path_of(folder, from) + " " + path_of(other, to), -1);
  return static_cast<int>(syscall(SYS_renameat, folder, from, other, to));
}

int link(const char* from, const char* to) noexcept {
  RETURN_IF_FAILED("link", path_of(AT_FDCWD, from) + " " + path_of(AT_FDCWD, to), -1);
  return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  RETURN_IF_FAILED("unlink", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_unlink, path));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  RETURN_IF_FAILED("unlink", path_of(folder, path), -1);
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int remove(const char* path) noexcept {
  RETURN_IF_FAILED("unlink", path_of(AT_FDCWD, path), -1);
  return real("remove", remove)(path);
}

int rmdir(const char* path) noexcept {
  RETURN_IF_FAILED("rmdir", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_rmdir, path));
}

int mkdir(const char* path, mode_t mode) noexcept {
  RETURN_IF_FAILED("mkdir", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_mkdir, path, mode));
}

int chmod(const char* path, mode_t mode) noexcept {
  RETURN_IF_FAILED("chmod", path_of(AT_FDCWD, path), -1);
  return static_cast<int>(syscall(SYS_chmod, path, mode));
}

int fchmod(int fd, mode_t mode) noexcept {
  RETURN_IF_FAILED("chmod", path_of(fd), -1);
  return static_cast<int>(syscall(SYS_fchmod, fd, mode));
}

DIR* opendir(const char* path) {
  RETURN_IF_FAILED("opendir", path_of(AT_FDCWD, path), nullptr);
  return real("opendir", opendir)(path);
}

#define MMAP(name)                                                                              \
  void* name(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept { \
    const Fault fault = fd < 0 ? Fault::none : inject_fault("mmap", path_of(fd));               \
    if (fault == Fault::fail) return MAP_FAILED;                                                \
    const long mapped = syscall(SYS_mmap, at, size, protection, flags, fd, offset);             \
    if (fault == Fault::shortened) truncate(path_of(fd).c_str(), 0);                            \
    return reinterpret_cast<void*>(mapped);                                                     \
  }
MMAP(mmap)
MMAP(mmap64)

#define STAT(name)                                           \
  int name(const char* path, struct stat* status) noexcept { \
    RETURN_IF_FAILED("stat", path_of(AT_FDCWD, path), -1);   \
    return real(#name, name)(path, status);                  \
  }
STAT(stat)
STAT(lstat)

int fstat(int fd, struct stat* status) noexcept {
  RETURN_IF_FAILED("fstat", path_of(fd), -1);
  return real("fstat", fstat)(fd, status);
}

}  // extern "C"
