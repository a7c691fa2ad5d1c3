// Writes a new file in the target's folder and renames it at the end, so that a failure leaves the target unchanged.
// Weights are copied from file to file, inside the kernel if possible.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files/files.h"
#include "schema/files/leftovers.h"
#include "schema/files/locks.h"
#include "schema/files/new_file.h"
#include "schema/files/temporary_names.h"

namespace whence {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 18;  // small writes are buffered up to this size
constexpr std::size_t kPage = 4096;
constexpr std::size_t kCompareAtOnce = std::size_t{1} << 24;
constexpr std::size_t kSpanFromFile = std::size_t{1} << 14;  // below this, a copy from memory is cheaper

std::string real_path(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return "";
  std::string result(real);
  std::free(real);
  return result;
}

// Copies bytes from file to file inside the kernel and returns their number. The caller copies the remaining bytes with
// a plain copy, which also reports errors: not every pair of files supports a copy in the kernel.
std::uint64_t copy_in_kernel(int from, std::uint64_t offset, int to, std::uint64_t size) {
  std::uint64_t done = 0;
  while (done < size) {
    auto at = static_cast<off_t>(offset + done);
    const ssize_t moved =
        ::copy_file_range(from, &at, to, nullptr, std::min<std::uint64_t>(size - done, max_transfer), 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) break;
    done += static_cast<std::uint64_t>(moved);
  }
  return done;
}

// Returns the first data range at or after `start`, between holes; {size, size} if there is none. On a file system
// without holes the range reaches to the end.
std::pair<std::uint64_t, std::uint64_t> next_data(int fd, std::uint64_t start, std::uint64_t size) {
  const off_t data = ::lseek(fd, static_cast<off_t>(start), SEEK_DATA);
  if (data < 0) return {errno == ENXIO ? size : start, size};
  const off_t hole = ::lseek(fd, data, SEEK_HOLE);
  const auto begin = std::min(static_cast<std::uint64_t>(data), size);
  return {begin, hole < 0 ? size : std::clamp(static_cast<std::uint64_t>(hole), begin, size)};
}

// A file that is open for reading until the object is destroyed.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (fd_ >= 0 && ::fstat(fd_, &status) == 0) {
      size_ = static_cast<std::uint64_t>(status.st_size);
      return;
    }
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw Error(Code::missing_file, path + ": " + std::strerror(error), remedy_for_reading(error),
                {.file = path, .stage = "read"});
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }
  std::uint64_t size() const { return size_; }

 private:
  int fd_;
  std::uint64_t size_ = 0;
};

}  // namespace

AtomicFile::AtomicFile(std::string target) : target_(std::move(target)) {
  const PostponedStops until_remembered;
  struct stat status{};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail_to_write(target_, errno);
  if (exists && S_ISDIR(status.st_mode)) {
    throw Error(Code::cannot_write, target_ + " is a folder", "name a file in it", {.file = target_, .stage = "write"});
  }
  if (exists && !S_ISREG(status.st_mode)) {
    // Writes to a device or pipe (/dev/null, /dev/stdout): replacing it with a file would harm the system.
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    const std::string folder = folder_of(resolved_target());
    remove_leftovers_once(folder);
    fd_ = create_locked(folder, temporary::file, temporary_);
    if (fd_ < 0) temporary_.clear();
  }
  if (fd_ < 0) fail_to_write(target_, errno);
  if (!temporary_.empty()) remember_temporary(temporary_.c_str());
  exists_ = exists && !temporary_.empty();
  if (!exists_) return;
  mode_ = status.st_mode & 07777;
  ::fchmod(fd_, mode_);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  forget_temporary(temporary_.c_str());
  if (source_fd_ >= 0) ::close(source_fd_);
  if (fd_ >= 0) ::close(fd_);
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
  // Blocks with the same offset within a page of both files can be shared or moved. For other blocks, the kernel copies
  // page by page at half the speed of a plain copy through a buffer that stays in the processor's cache.
  const bool same_in_page = offset % kPage == position_ % kPage;
  std::uint64_t done = same_in_page ? copy_in_kernel(fd, offset, fd_, size) : 0;
  std::vector<char> buffer(done < size ? kBufferSize : 0);
  while (done < size) {
    // Each piece ends at a page boundary of the target, so that no page is written twice.
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
  if (bytes.computed_when_written()) return write(bytes.compute());
  const auto content = bytes.in_memory().value();
  if (bytes.file().empty() || content.size() < kSpanFromFile) return write(content.data(), content.size());
  if (bytes.file() != source_path_) {
    if (source_fd_ >= 0) ::close(source_fd_);
    source_fd_ = ::open(bytes.file().c_str(), O_RDONLY | O_CLOEXEC);
    source_path_ = bytes.file();
  }
  // If the file was removed or renamed after it was mapped, the mapping still holds the bytes.
  if (source_fd_ < 0) return write(content.data(), content.size());
  copy_from(source_fd_, bytes.offset(), content.size());
}

void AtomicFile::take(const std::string& finished) {
  const int fd = temporary_.empty() || position_ > 0 ? -1 : ::open(finished.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || try_lock(fd) == LockResult::busy || ::rename(finished.c_str(), temporary_.c_str()) != 0) {
    if (fd >= 0) ::close(fd);
    return copy(finished);
  }
  ::close(std::exchange(fd_, fd));
  if (exists_) ::fchmod(fd_, mode_);
}

void AtomicFile::copy(const std::string& path) {
  if (source_fd_ >= 0) ::close(source_fd_);
  source_fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  source_path_ = path;
  struct stat status{};
  if (source_fd_ < 0 || ::fstat(source_fd_, &status) != 0) {
    throw Error(Code::missing_file, path + ": " + std::strerror(errno), remedy_for_reading(errno),
                {.file = path, .stage = "write"});
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (temporary_.empty() || position_ > 0) {
    copy_from(source_fd_, 0, size);
  } else {
    flush();
    while (position_ < size) {
      const auto [begin, end] = next_data(source_fd_, position_, size);
      if (::lseek(fd_, static_cast<off_t>(begin), SEEK_SET) < 0) fail_to_write(target_, errno);
      position_ = begin;
      copy_from(source_fd_, begin, end - begin);
      const bool ends_in_hole = begin == size;
      if (ends_in_hole && ::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail_to_write(target_, errno);
    }
  }
  // Restricts the permissions: a copy is not readable by more users than its original.
  struct stat own{};
  if (!exists_ && !temporary_.empty() && ::fstat(fd_, &own) == 0) ::fchmod(fd_, own.st_mode & status.st_mode & 07777);
}

void AtomicFile::commit() {
  finish();
  if (temporary_.empty()) return;
  // A draft folder is already locked by the process that owns it.
  std::optional<FolderLock> lock;
  if (!is_draft()) lock.emplace(folder_of(resolved_target()));
  const PostponedStops until_named;
  give_name();
  if (lock) lock->sync();
}

// Follows links, so that a link stays a link and its target is replaced. Canonical folder names are locked only once.
std::string AtomicFile::resolved_target() const {
  const std::string real = real_path(target_);
  if (!real.empty()) return real;
  const std::string folder = real_path(folder_of(target_));
  return (folder.empty() ? folder_of(target_) : folder) + "/" + base_name(target_);
}

bool AtomicFile::is_draft() const { return is_draft_folder(folder_of(resolved_target())); }

void AtomicFile::finish() {
  flush();
  if (!temporary_.empty()) {
    // Keeps the file open: its lock shows that this process is alive. Network file systems report a full disk in sync.
    if (!is_draft()) sync_file(fd_, target_);
    return;
  }
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail_to_write(target_, errno);
}

FileIdentity AtomicFile::identity() const {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) fail_to_write(target_, errno);
  return FileIdentity(status);
}

void AtomicFile::give_name() {
  const std::string target = resolved_target();
  if (replaces_) {
    if (::rename(temporary_.c_str(), target.c_str()) != 0) fail_to_write(target_, errno);
  } else if (::link(temporary_.c_str(), target.c_str()) == 0) {
    ::unlink(temporary_.c_str());
  } else if (errno == EEXIST) {
    throw Error(Code::cannot_write, target_ + " was written by another process", "run the command again",
                {.file = target_, .stage = "write"});
  } else if (::rename(temporary_.c_str(), target.c_str()) != 0) {  // some file systems have no hard links
    fail_to_write(target_, errno);
  }
  forget_temporary(temporary_.c_str());
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

bool same_content(const std::string& first, const std::string& second) {
  const OpenFile a_file(first), b_file(second);
  const std::uint64_t size = a_file.size();
  if (size != b_file.size()) return false;
  if (size == 0) return true;
  const auto a = MappedFile::open(first), b = MappedFile::open(second);
  // Skips holes that both files have: they may be a hundred gigabytes, and reading them would fill memory with zeros.
  for (std::uint64_t at = 0; at < size;) {
    const auto [begin, end] = std::min(next_data(a_file.fd(), at, size), next_data(b_file.fd(), at, size));
    for (at = begin; at < end;) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kCompareAtOnce, end - at));
      if (std::memcmp(a->data() + at, b->data() + at, count) != 0) return false;
      a->release(at, count);
      b->release(at, count);
      at += count;
    }
  }
  return true;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace whence
