// Reads files by mapping them: only the pages that are read enter memory.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/files/files.h"
#include "schema/files/new_file.h"

#ifdef __has_feature  // clang has this instead of GCC's macro __SANITIZE_ADDRESS__
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)
#define ASAN_UNPOISON_MEMORY_REGION(address, size)
#endif

namespace whence {

namespace {

// Returns the number of bytes in the last page after the end of the file. They read as zeros, so a read beyond the end
// would go unnoticed; with the address sanitizer they are poisoned.
[[maybe_unused]] std::size_t rest_of_page(std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (page - size % page) % page;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path, const std::string& final_path) {
  const Place place{.file = final_path.empty() ? path : final_path, .stage = "read"};
  struct stat status{};
  // Checks the file type before opening: opening a pipe would wait for its writer.
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR;
    throw Error(Code::missing_file, missing ? "no such file: " + path : path + ": " + std::strerror(error),
                remedy_for_reading(error), place);
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(Code::wrong_kind, path + " is a folder, not a file", "name a file in it", place);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(Code::wrong_kind, path + " is not a regular file", "copy its content into a file first", place);
  }
  if (status.st_size == 0) {
    throw Error(Code::empty_file, path + " has no bytes", "write the file again, or check the copy", place);
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::missing_file, path + ": " + std::strerror(errno), remedy_for_reading(errno), place);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    throw Error(Code::over_limit, path + " cannot be mapped: " + std::strerror(error),
                "free memory, or raise the limit on address space (ulimit -v)", place);
  }
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(data) + size, rest_of_page(size));
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->final_path_ = place.file;
  file->data_ = static_cast<const std::byte*>(data);
  file->size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(data_ + size_, rest_of_page(size_));
  ::munmap(const_cast<std::byte*>(data_), size_);
}

Bytes MappedFile::slice(const std::shared_ptr<MappedFile>& self, std::size_t offset, std::size_t size) const {
  if (offset > size_ || size > size_ - offset) {
    throw Error(Code::truncated_file,
                "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) + " are beyond the end of " +
                    path() + " (" + std::to_string(size_) + " bytes)",
                "copy or download the file again", {.file = path(), .stage = "read"});
  }
  return Bytes::part_of(self, data_ + offset, size).stored_in(path_, offset);
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  if (offset >= size_) return;
  const std::size_t end = size > size_ - offset ? size_ : offset + size;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = (offset + page - 1) / page * page;  // complete pages only: adjacent bytes may be in use
  const std::size_t last = end == size_ ? end : end / page * page;
  // madvise is only a hint: if it fails, the pages stay until the kernel needs the memory.
  if (first < last) ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

}  // namespace whence
