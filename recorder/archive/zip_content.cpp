#include "recorder/archive/zip_content.h"

#include <algorithm>
#include <limits>

#include <zlib.h>

#include "schema/result.h"

namespace whence::recorder::archive {
namespace {

// Avoids crc32_z, which takes the content in one piece: a wheel cannot rely on a zlib that has it.
std::uint32_t checksum_of(std::string_view content) {
  uLong sum = 0;
  while (!content.empty()) {
    const std::string_view piece = content.substr(0, std::numeric_limits<uInt>::max());
    sum = crc32(sum, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    content.remove_prefix(piece.size());
  }
  return static_cast<std::uint32_t>(sum);
}

// Returns the inflated bytes; empty if they are not exactly `size` bytes.
std::string inflated(std::string_view packed, std::uint64_t size) {
  std::string bytes(size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  std::uint64_t in_left = packed.size(), out_left = size;
  // zlib's counters have 32 bits.
  const auto take = [](std::uint64_t& left) {
    const std::uint64_t amount = std::min<std::uint64_t>(left, std::numeric_limits<uInt>::max());
    left -= amount;
    return static_cast<uInt>(amount);
  };
  int state = inflateInit2(&stream, -MAX_WBITS);  // negative: raw data without a zlib header, as in a zip
  while (state == Z_OK) {
    if (stream.avail_in == 0) stream.avail_in = take(in_left);
    if (stream.avail_out == 0) stream.avail_out = take(out_left);
    state = inflate(&stream, Z_NO_FLUSH);
  }
  const bool complete = state == Z_STREAM_END && out_left == 0 && stream.avail_out == 0;
  inflateEnd(&stream);
  return complete ? bytes : "";
}

}  // namespace

std::string_view checked_content(const ZipArchive& archive, const ZipArchive::Entry& entry, std::string& storage,
                                 const std::string& remedy) {
  std::string_view content = archive.text(entry.name);
  if (entry.packing == ZipArchive::Packing::deflated) content = storage = inflated(content, entry.size);
  if (checksum_of(content) != entry.checksum) {
    throw Error(Code::corrupt_file, "member " + entry.name + " is damaged: its checksum does not match", remedy,
                {.file = archive.path(), .stage = "read"});
  }
  return content;
}

}  // namespace whence::recorder::archive
