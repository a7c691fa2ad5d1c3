// Files: mapped reading, atomic writing, digests. whence writes all files with AtomicFile, so a failure leaves the
// target unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schema/files/file_identity.h"
#include "schema/result.h"
#include "schema/tensor_data.h"

namespace whence {

// A complete file, mapped read-only. Throws Error: missing_file, empty_file.
class MappedFile {
 public:
  // `final_path`: if the file is a draft, the path that it will get. Messages name it, and relative references in the
  // file are resolved against its folder.
  static std::shared_ptr<MappedFile> open(const std::string& path, const std::string& final_path = "");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const std::string& path() const { return final_path_; }
  const std::string& bytes_path() const { return path_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  Bytes slice(const std::shared_ptr<MappedFile>& self, std::size_t offset, std::size_t size) const;
  // Lets the kernel drop these pages from memory, so that streaming over weights needs little memory.
  void release(std::size_t offset, std::size_t size) const;
  void release_all() const { release(0, size_); }

 private:
  MappedFile() = default;
  std::string path_, final_path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A new file in the target's folder. commit() syncs it to the disk and renames it to the target; without commit() it is
// removed. A file in a draft folder (temporary_names.h) is not synced.
// Every failure (folder missing, no permission, disk full) throws Error(cannot_write) with the target's name.
class AtomicFile {
 public:
  explicit AtomicFile(std::string target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Copies bytes from another file: inside the kernel (copy_file_range) if both positions have the same offset within a
  // page, otherwise through a small buffer.
  void copy_from(int fd, std::uint64_t offset, std::uint64_t size);
  // Copies bytes that are stored in a file as a span, so weights never enter this process's memory.
  void write(const Bytes& bytes);
  void copy(const std::string& path);  // copies a complete file; throws Error(missing_file)
  // Moves a finished file here if it is on the same disk, otherwise copies it. The caller no longer needs it.
  void take(const std::string& finished);
  std::uint64_t position() const { return position_; }
  // Makes commit() throw Error(cannot_write) if another process has created the target in the meantime.
  void require_new_target() { replaces_ = false; }
  const std::string& target() const { return target_; }
  void commit();

 private:
  friend class OutputFiles;       // commits several files with these steps
  void finish();                  // syncs all bytes to the disk; throws Error(cannot_write)
  FileIdentity identity() const;  // identity of the new file
  void give_name();
  std::string resolved_target() const;  // the target with links followed
  bool is_device() const { return temporary_.empty(); }
  bool is_draft() const;

  std::string target_, temporary_;
  bool exists_ = false, replaces_ = true;
  unsigned mode_ = 0;  // mode of the replaced file
  int fd_ = -1;
  std::uint64_t position_ = 0;
  std::string buffer_;
  std::string source_path_;
  int source_fd_ = -1;
  void flush();
};

void write_file(const std::string& path, std::string_view text);  // AtomicFile in one call

std::string digest_of(const void* data, std::size_t size);  // xxh3-128, 32 lower-case hex digits
std::string digest_of_file(const std::string& path);        // streams; memory stays constant
// Throws Error(missing_file) if a file cannot be read.
bool same_content(const std::string& first, const std::string& second);
std::string base_name(const std::string& path);

}  // namespace whence
