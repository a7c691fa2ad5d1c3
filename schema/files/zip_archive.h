// ZipArchive: a zip file, mapped and never copied: of PyTorch, whose members are stored, or of numpy, whose members may
// be deflated and are left so.
//
// An archive comes from another program, and two readers that disagree on what it holds are an attack: members that are
// compressed otherwise, encrypted, there twice, over each other or named out of the archive are refused, wherever they
// are. Source: PKWARE's APPNOTE.TXT 6.3.9, with ZIP64.
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
    std::uint64_t size;      // size of the content, once it is inflated
    std::uint32_t checksum;  // CRC-32 of the same, which is not compared here
  };

  // `maker`: what writes such archives, for remedies; `packing`: deflated admits both.
  // Errors: missing_file, empty_file, wrong_kind (no zip), truncated_file, corrupt_file, unsupported_feature
  // (compressed, encrypted, several disks), outside_folder (a name that climbs out).
  ZipArchive(const std::string& path, std::string maker, Packing packing = Packing::stored);

  const std::string& path() const { return file_->path(); }
  std::uint64_t size() const { return file_->size(); }
  const std::map<std::string, std::string_view, std::less<>>& members() const { return members_; }
  // In the order of the directory: what is said of a member beside its bytes.
  const std::vector<Entry>& entries() const { return entries_; }

  bool has(std::string_view name) const { return members_.contains(name); }
  std::string_view text(std::string_view name) const;  // throws Error(corrupt_file) when there is no such member
  // A piece of a member, in place. Throws Error(corrupt_file) where the member ends before it.
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
