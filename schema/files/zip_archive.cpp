// Parses the directory of a zip file and refuses ambiguous archives.
#include "schema/files/zip_archive.h"

#include <algorithm>
#include <utility>

#include "schema/result.h"

namespace whence {
namespace {

constexpr std::uint32_t end_signature = 0x06054b50, end64_signature = 0x06064b50, locator_signature = 0x07064b50,
                        entry_signature = 0x02014b50, header_signature = 0x04034b50;
constexpr std::uint64_t end_size = 22, longest_comment = 65535, locator_size = 20, entry_size = 46, header_size = 30;
constexpr std::uint64_t in_zip64 = 0xffffffff;  // marks a number that does not fit and is in the extra field
constexpr std::uint32_t zip64_extra = 1;
constexpr std::uint64_t max_inflation = 1032;  // inflated bytes for each deflated byte (zlib.net/zlib_tech.html)

bool is_outside_path(std::string_view name) {
  if (name.starts_with('/') || name.find('\\') != std::string_view::npos) return true;
  if (name.size() > 1 && name[1] == ':') return true;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    if (name.substr(start, end - start) == "..") return true;
    start = end + 1;
  }
  return false;
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path, std::string maker, Packing packing)
    : file_(MappedFile::open(path)), maker_(std::move(maker)), packing_(packing) {
  read_entries(find_directory());
  refuse_overlaps();
}

void ZipArchive::corrupt(const std::string& why) const {
  throw Error(Code::corrupt_file, why, "write it again with " + maker_, {.file = path(), .stage = "read"});
}

std::uint64_t ZipArchive::number(std::uint64_t at, int bytes) const {
  const std::string_view text = file_->text();
  if (at > text.size() || text.size() - at < static_cast<std::uint64_t>(bytes)) {
    throw Error(Code::truncated_file, "the archive ends in the middle of its directory", "copy the file again",
                {.file = path(), .stage = "read"});
  }
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(text[at + static_cast<std::size_t>(i)]);
  return value;
}

ZipArchive::Directory ZipArchive::find_directory() const {
  const std::string_view text = file_->text();
  const Place place{.file = path(), .stage = "read"};
  if (!text.starts_with("PK")) {
    throw Error(Code::wrong_kind, "this is not a zip archive", "pass a file that " + maker_ + " wrote", place);
  }
  const std::uint64_t earliest =
      text.size() < end_size + longest_comment ? 0 : text.size() - end_size - longest_comment;
  std::uint64_t end = text.size() < end_size ? 0 : text.size() - end_size + 1;
  while (end > earliest && number(end - 1, 4) != end_signature) --end;
  if (end == earliest) {
    throw Error(Code::truncated_file, "the archive has no directory at its end", "copy the file again", place);
  }
  --end;
  Directory directory{number(end + 10, 2), number(end + 16, 4), number(end + 12, 4)};
  const bool one_disk = number(end + 4, 2) == 0 && number(end + 6, 2) == 0;
  if (!one_disk) throw Error(Code::unsupported_feature, "the archive spans several disks", "make it one file", place);
  if (end >= locator_size && number(end - locator_size, 4) == locator_signature) {
    const std::uint64_t end64 = number(end - locator_size + 8, 8);
    if (number(end64, 4) != end64_signature) corrupt("the ZIP64 directory is not where it should be");
    const Directory in32 = directory;
    directory = {number(end64 + 32, 8), number(end64 + 48, 8), number(end64 + 40, 8)};
    const auto agree = [](std::uint64_t small, std::uint64_t full, std::uint64_t largest) {
      return small == full || small == largest;
    };
    if (!agree(in32.entries, directory.entries, 0xffff) || !agree(in32.offset, directory.offset, in_zip64) ||
        !agree(in32.size, directory.size, in_zip64)) {
      corrupt("the archive has two directories that disagree");
    }
  }
  if (directory.offset > end || directory.size > end - directory.offset) corrupt("the directory is outside the file");
  return directory;
}

void ZipArchive::read_entries(const Directory& directory) {
  std::uint64_t at = directory.offset;
  const std::uint64_t end = directory.offset + directory.size;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (end - at < entry_size || number(at, 4) != entry_signature) corrupt("the directory is cut short");
    const std::uint64_t flags = number(at + 8, 2), method = number(at + 10, 2);
    const std::uint64_t name_size = number(at + 28, 2), extra_size = number(at + 30, 2), comment = number(at + 32, 2);
    std::uint64_t packed = number(at + 20, 4), size = number(at + 24, 4), header = number(at + 42, 4);
    if (end - at - entry_size < name_size + extra_size + comment) corrupt("an entry extends beyond the directory");
    const std::string name(file_->text().substr(at + entry_size, name_size));
    // The extra field holds the numbers that do not fit into 32 bits, in this order.
    for (std::uint64_t extra = at + entry_size + name_size, last = extra + extra_size; last - extra >= 4;) {
      const std::uint64_t length = number(extra + 2, 2);
      if (last - extra - 4 < length) corrupt("an entry's extra field is cut short");
      std::uint64_t field = extra + 4;
      const std::uint64_t field_end = field + length;
      if (number(extra, 2) == zip64_extra) {
        for (std::uint64_t* value : {&size, &packed, &header}) {
          if (*value != in_zip64) continue;
          if (field_end - field < 8) corrupt("an entry's ZIP64 field is cut short");
          *value = number(field, 8);
          field += 8;
        }
      }
      extra = field_end;
    }
    const std::uint64_t entry = std::exchange(at, at + entry_size + name_size + extra_size + comment);

    const Place place{.file = path(), .stage = "read", .node = name};
    if (is_outside_path(name)) {
      throw Error(Code::outside_folder, "the name of a member points outside the archive", "do not open it", place);
    }
    const bool deflated = method == 8 && packing_ == Packing::deflated;
    if (!deflated && (method != 0 || packed != size)) {
      throw Error(Code::unsupported_feature, "a member of the archive is compressed",
                  "write it again with " + maker_ + ", and do not compress it", place);
    }
    if (deflated && size / max_inflation > packed) corrupt("'" + name + "' cannot be as large as the directory says");
    if ((flags & 1) != 0) {
      throw Error(Code::unsupported_feature, "a member of the archive is encrypted",
                  "pass the archive without encryption", place);
    }
    if (name.ends_with('/')) continue;
    if (!members_.emplace(name, content_of(name, header, packed)).second)
      corrupt("the directory lists '" + name + "' twice");
    entries_.push_back({name, deflated ? Packing::deflated : Packing::stored, size,
                        static_cast<std::uint32_t>(number(entry + 16, 4))});
  }
}

std::string_view ZipArchive::content_of(const std::string& name, std::uint64_t header, std::uint64_t size) const {
  if (number(header, 4) != header_signature) corrupt("'" + name + "' is not where the directory says");
  const std::uint64_t name_size = number(header + 26, 2), extra_size = number(header + 28, 2);
  const std::string_view rest = file_->text().substr(header).substr(std::min(header_size, file_->size() - header));
  if (rest.substr(0, name_size) != name) corrupt("'" + name + "' has another name in its local header");
  const std::uint64_t start = header + header_size + name_size + extra_size;
  if (start > file_->size() || size > file_->size() - start) {
    throw Error(Code::truncated_file, "the archive ends inside '" + name + "'", "copy the file again",
                {.file = path(), .stage = "read"});
  }
  return file_->text().substr(start, size);
}

void ZipArchive::refuse_overlaps() const {
  std::vector<std::string_view> spans;
  for (const auto& [name, content] : members_) {
    if (!content.empty()) spans.push_back(content);
  }
  std::ranges::sort(spans, {}, [](std::string_view span) { return span.data(); });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i - 1].data() + spans[i - 1].size() > spans[i].data()) corrupt("two members overlap");
  }
}

std::string_view ZipArchive::text(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) corrupt("the archive has no member '" + std::string(name) + "'");
  return found->second;
}

Bytes ZipArchive::bytes(std::string_view name, std::uint64_t offset, std::uint64_t size) const {
  const std::string_view content = text(name);
  if (offset > content.size() || size > content.size() - offset) {
    corrupt("'" + std::string(name) + "' is shorter than the tensor in it");
  }
  return file_->slice(file_, static_cast<std::size_t>(content.data() - file_->text().data()) + offset, size);
}

}  // namespace whence
