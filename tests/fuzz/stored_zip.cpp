#include "tests/fuzz/stored_zip.h"

#include <cstdint>

#include <zlib.h>

namespace whence::fuzz {
namespace {

// Appends the value as `bytes` little-endian bytes; bytes after the eighth are 0.
void put(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) to += static_cast<char>(value);
}

// Appends the fields that a member's header and its directory entry share: from the version to the length of the extra
// field.
void put_common_fields(std::string& to, const std::string& name, std::string_view content) {
  put(to, 20, 2);
  put(to, 0, 8);  // flags, stored, time, date
  put(to, crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())), 4);
  put(to, content.size(), 4);
  put(to, content.size(), 4);
  put(to, name.size(), 2);
  put(to, 0, 2);
}

}  // namespace

std::string stored_zip(const ZipMembers& members) {
  std::string archive, directory;
  for (const auto& [name, content] : members) {
    const std::size_t at = archive.size();
    put(archive, 0x04034b50, 4);
    put_common_fields(archive, name, content);
    archive.append(name).append(content);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    put_common_fields(directory, name, content);
    put(directory, 0, 10);  // comment, disk, attributes
    put(directory, at, 4);
    directory += name;
  }
  const std::size_t at = archive.size();
  archive += directory;
  put(archive, 0x06054b50, 4);
  put(archive, 0, 4);
  put(archive, members.size(), 2);
  put(archive, members.size(), 2);
  put(archive, directory.size(), 4);
  put(archive, at, 4);
  put(archive, 0, 2);
  return archive;
}

}  // namespace whence::fuzz
