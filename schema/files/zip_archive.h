// ZipArchive: a mapped zip file whose members are never copied. PyTorch stores its members; numpy may deflate them, and
// they stay deflated.
//
// Archives are untrusted. A file that two readers interpret differently can be an attack, so members that are
// encrypted, duplicate, overlapping, compressed in another way or named outside the archive are refused. Source:
// PKWARE's APPNOTE.TXT 6.3.9, with ZIP64.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/files/files.h"

namespace whence {

class ZipArchive {
 public:
  enum class Packing : std::uint8_t { stored, deflated };
  struct Entry {
    std::string name;
    Packing packing;
    std::uint64_t size;      // size of the inflated content
    std::uint32_t checksum;  // CRC-32 of the inflated content; not checked here
  };

  // `maker`: the function that writes these archives, for remedies. `packing`: `deflated` also accepts stored members.
  // Errors: missing_file, empty_file, wrong_kind (not a zip file), truncated_file, corrupt_file, unsupported_feature
  // (compressed, encrypted, several disks), outside_folder (a name outside the archive).
  ZipArchive(const std::string& path, std::string maker, Packing packing = Packing::stored);

  const std::string& path() const { return file_->path(); }
  std::uint64_t size() const { return file_->size(); }
  const std::map<std::string, std::string_view, std::less<>>& members() const { return members_; }
  // Metadata of the members, in the order of the directory.
  const std::vector<Entry>& entries() const { return entries_; }

  bool has(std::string_view name) const { return members_.contains(name); }
  std::string_view text(std::string_view name) const;  // throws Error(corrupt_file) for a missing member
  // Returns a part of a member, in place. Throws Error(corrupt_file) if the member is too short.
  Bytes bytes(std::string_view name, std::uint64_t offset, std::uint64_t size) const;

 private:
  struct Directory {
    std::uint64_t entries = 0, offset = 0, size = 0;
  };
  Directory find_directory() const;
  void read_entries(const Directory& directory);
  std::string_view content_of(const std::string& name, std::uint64_t header, std::uint64_t size) const;
  void refuse_overlaps() const;

  std::uint64_t number(std::uint64_t at, int bytes) const;
  [[noreturn]] void corrupt(const std::string& why) const;

  std::shared_ptr<MappedFile> file_;
  std::string maker_;
  Packing packing_;
  std::map<std::string, std::string_view, std::less<>> members_;
  std::vector<Entry> entries_;
};

}  // namespace whence
