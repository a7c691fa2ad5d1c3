// Files: mapped reading, atomic writing, digests. Every file that whence writes goes through AtomicFile, so a failure
// leaves the target as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schema/files/file_identity.h"
#include "schema/result.h"
#include "schema/tensor_data.h"

namespace whence {

// A read-only view of a whole file. Throws Error: missing_file, empty_file.
class MappedFile {
 public:
  // `known_as`: the name that messages give the file, and in whose folder what it refers to lies, when the file is a
  // draft of another one.
  static std::shared_ptr<MappedFile> open(const std::string& path, const std::string& known_as = "");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const std::string& path() const { return known_as_; }
  const std::string& bytes_path() const { return path_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  Bytes slice(const std::shared_ptr<MappedFile>& self, std::size_t offset, std::size_t size) const;
  // Tells the kernel that these pages will not be read again soon, so that streaming over weights keeps memory low.
  void release(std::size_t offset, std::size_t size) const;
  void release_all() const { release(0, size_); }

 private:
  MappedFile() = default;
  std::string path_, known_as_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A new file beside the target, brought to the disk and renamed into place by commit(); removed when commit() was not
// reached. A file in a folder for drafts (temporary_names.h) is not brought to the disk.
// Every failure (folder missing, no permission, disk full) throws Error(cannot_write) with the target's name.
class AtomicFile {
 public:
  explicit AtomicFile(std::string target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Copies bytes from another file: inside the kernel (copy_file_range) if both places have the same offset within a
  // page, else by a small buffer.
  void copy_from(int fd, std::uint64_t offset, std::uint64_t size);
  // Bytes that may lie in a file: copied as a span when they do, so weights never enter this process's memory.
  void write(const Bytes& bytes);
  void copy(const std::string& path);  // a whole file; throws Error(missing_file)
  // A finished file that nothing else needs: it is moved here when it lies on the same disk.
  void take(const std::string& finished);
  std::uint64_t position() const { return position_; }
  // A file that another process puts under the name meanwhile is not replaced: commit() throws Error(cannot_write).
  void replace_nothing() { replaces_ = false; }
  const std::string& target() const { return target_; }
  void commit();

 private:
  friend class OutputFiles;       // commits several files in these steps
  void finish();                  // all bytes are on the disk, or Error(cannot_write)
  FileIdentity identity() const;  // identity of the new file
  void give_name();
  std::string place() const;  // the target, links followed
  bool is_device() const { return temporary_.empty(); }
  bool is_draft() const;

  std::string target_, temporary_;
  bool exists_ = false, replaces_ = true;
  unsigned mode_ = 0;  // mode of the file that is replaced
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
// Throws Error(missing_file) for what cannot be read.
bool same_content(const std::string& first, const std::string& second);
std::string base_name(const std::string& path);

}  // namespace whence
