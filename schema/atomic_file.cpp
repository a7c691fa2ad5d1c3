// Writing files so that a failure leaves the target as it was: a new file in the same folder, renamed at the end.
// Weights travel from file to file, inside the kernel where it can.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files.h"

namespace whence {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 18;  // small writes are gathered up to here
constexpr std::size_t kPage = 4096;
constexpr std::size_t kCopyAtOnce = std::size_t{1} << 30;    // bytes for one call into the kernel
constexpr std::size_t kSpanFromFile = std::size_t{1} << 14;  // below this, a copy from memory is cheaper

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

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
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space on the disk, or write to another one";
    default:
      return "write to another folder or disk";
  }
}

[[noreturn]] void fail(const std::string& target, int error) {
  throw Error(Code::cannot_write, target + ": " + std::strerror(error), remedy_for(error, target),
              {.file = target, .stage = "write"});
}

// A link stays a link: what it points to is replaced.
std::string resolve(const std::string& target) {
  char* real = ::realpath(target.c_str(), nullptr);
  if (real == nullptr) return target;
  std::string path(real);
  std::free(real);
  return path;
}

// Creates a file that did not exist, with the permissions that the user's umask leaves.
int create_beside(const std::string& target, std::string& created) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    created = folder_of(target) + "/.whence-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    const int fd = ::open(created.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// Moves bytes from file to file inside the kernel and returns how many it could move; the rest is for a plain copy.
// Not every pair of files allows this, and no error here is final: the plain copy meets it again and reports it.
std::uint64_t copy_in_kernel(int from, std::uint64_t offset, int to, std::uint64_t size) {
  std::uint64_t done = 0;
  while (done < size) {
    auto at = static_cast<off_t>(offset + done);
    const ssize_t moved =
        ::copy_file_range(from, &at, to, nullptr, std::min<std::uint64_t>(size - done, kCopyAtOnce), 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) break;
    done += static_cast<std::uint64_t>(moved);
  }
  return done;
}

void write_all(int fd, const char* data, std::size_t size, const std::string& target) {
  while (size > 0) {
    const ssize_t put = ::write(fd, data, std::min(size, kCopyAtOnce));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(target, errno);
    data += put;
    size -= static_cast<std::size_t>(put);
  }
}

}  // namespace

AtomicFile::AtomicFile(std::string target) : target_(std::move(target)) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail(target_, errno);
  if (exists && S_ISDIR(status.st_mode)) {
    throw Error(Code::cannot_write, target_ + " is a folder", "name a file in it", {.file = target_, .stage = "write"});
  }
  if (exists && !S_ISREG(status.st_mode)) {
    // A device or pipe (/dev/null, /dev/stdout) is written to; replacing it by a file would harm the system.
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    fd_ = create_beside(exists ? resolve(target_) : target_, temporary_);
    if (fd_ < 0) temporary_.clear();
  }
  if (fd_ < 0) fail(target_, errno);
  if (exists && !temporary_.empty()) ::fchmod(fd_, status.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (source_fd_ >= 0) ::close(source_fd_);
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), target_);
  buffer_.clear();
}

void AtomicFile::write(const void* data, std::size_t size) {
  position_ += size;
  if (buffer_.size() + size > kBufferSize) flush();
  if (size >= kBufferSize) {
    write_all(fd_, static_cast<const char*>(data), size, target_);
  } else {
    buffer_.append(static_cast<const char*>(data), size);
  }
}

void AtomicFile::copy_from(int fd, std::uint64_t offset, std::uint64_t size) {
  flush();
  // Blocks that lie alike in both files can be shared or moved whole. Others the kernel would piece together, page by
  // page, at half the speed of a plain copy through a buffer that stays in the processor's cache.
  const bool alike = offset % kPage == position_ % kPage;
  std::uint64_t done = alike ? copy_in_kernel(fd, offset, fd_, size) : 0;
  std::vector<char> buffer(done < size ? kBufferSize : 0);
  while (done < size) {
    // Each piece ends where a page of the target ends, so that no page is written twice.
    const std::uint64_t room = buffer.size() - (position_ + done) % kPage;
    const ssize_t got =
        ::pread(fd, buffer.data(), std::min<std::uint64_t>(size - done, room), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(got < 0 ? Code::missing_file : Code::truncated_file,
                  got < 0 ? std::string("a source file cannot be read: ") + std::strerror(errno)
                          : "a source file became shorter while it was copied",
                  "keep the source file unchanged until the command is done", {.file = source_path_, .stage = "write"});
    }
    write_all(fd_, buffer.data(), static_cast<std::size_t>(got), target_);
    done += static_cast<std::uint64_t>(got);
  }
  position_ += size;
}

void AtomicFile::write(const Bytes& bytes) {
  if (bytes.made_when_written()) return write(bytes.made());
  const auto content = bytes.in_memory().value();
  if (bytes.file().empty() || content.size() < kSpanFromFile) return write(content.data(), content.size());
  if (bytes.file() != source_path_) {
    if (source_fd_ >= 0) ::close(source_fd_);
    source_fd_ = ::open(bytes.file().c_str(), O_RDONLY | O_CLOEXEC);
    source_path_ = bytes.file();
  }
  // Removed or renamed since it was mapped: the mapping still holds the bytes.
  if (source_fd_ < 0) return write(content.data(), content.size());
  copy_from(source_fd_, bytes.offset(), content.size());
}

void AtomicFile::commit() {
  flush();
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail(target_, errno);  // some network file systems report a full disk only here
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), resolve(target_).c_str()) != 0) fail(target_, errno);
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace whence
