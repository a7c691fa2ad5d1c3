#include "recorder/inputs/npz_arrays.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "recorder/archive/zip_content.h"
#include "schema/result.h"

namespace whence::recorder::inputs {
namespace {

constexpr auto written_with = "write the file with numpy.savez(path, name=array)";
constexpr std::size_t max_axes = 64;  // numpy's own limit

using NamedType = std::pair<std::string_view, DType>;

constexpr std::array<NamedType, 9> types = {{
    {"|b1", DType::boolean},
    {"|u1", DType::uint8},
    {"|i1", DType::int8},
    {"<i2", DType::int16},
    {"<i4", DType::int32},
    {"<i8", DType::int64},
    {"<f2", DType::float16},
    {"<f4", DType::float32},
    {"<f8", DType::float64},
}};

// Reads one member: numpy.lib.format's magic, version, length of the header, header, elements. The header is a dict as
// Python prints it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyReader {
 public:
  NpyReader(const std::string& path, std::string name, std::string_view content)
      : path_(path), name_(std::move(name)), content_(content) {}

  NpzArray read() const {
    const auto [header, elements] = parts();
    NpzArray array{name_, dtype_in(header), dims_in(header), value_in(header, "fortran_order").starts_with("True"), ""};
    const std::optional<std::size_t> size = bytes_of(array);
    if (!size || *size > elements.size()) corrupt("is cut off");
    array.bytes = elements.substr(0, *size);
    return array;
  }

 private:
  [[noreturn]] void corrupt(const std::string& why) const {
    throw Error(Code::corrupt_file, "member " + name_ + " " + why, written_with, {.file = path_, .stage = "read"});
  }

  std::pair<std::string_view, std::string_view> parts() const {
    if (content_.size() < 10 || !content_.starts_with("\x93NUMPY")) corrupt("is not a numpy array");
    const std::size_t width = content_[6] >= 2 ? 4 : 2, start = 8 + width;
    if (content_.size() < start) corrupt("is cut off");
    std::size_t length = 0;
    for (std::size_t i = width; i-- > 0;) length = length << 8 | static_cast<unsigned char>(content_[8 + i]);
    if (content_.size() - start < length) corrupt("is cut off");
    return {content_.substr(start, length), content_.substr(start + length)};
  }

  // Returns the part of the header after the key.
  std::string_view value_in(std::string_view header, std::string_view key) const {
    const std::string quoted = "'" + std::string(key) + "':";
    const std::size_t at = header.find(quoted);
    if (at == std::string_view::npos) corrupt("has no readable header");
    header.remove_prefix(at + quoted.size());
    header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
    return header;
  }

  DType dtype_in(std::string_view header) const {
    std::string_view text = value_in(header, "descr");
    const std::size_t end = text.starts_with('\'') ? text.find('\'', 1) : std::string_view::npos;
    if (end == std::string_view::npos) corrupt("has no readable header");
    text = text.substr(1, end - 1);
    const auto found = std::ranges::find(types, text, &NamedType::first);
    if (found == types.end()) corrupt("has dtype " + std::string(text) + ", which PyTorch lacks");
    return found->second;
  }

  std::vector<std::int64_t> dims_in(std::string_view header) const {
    std::string_view text = value_in(header, "shape");
    const std::size_t end = text.starts_with('(') ? text.find(')') : std::string_view::npos;
    if (end == std::string_view::npos) corrupt("has no readable header");
    std::vector<std::int64_t> dims;
    for (text = text.substr(1, end - 1); !text.empty();) {
      std::int64_t dim = 0;
      const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), dim);
      if (failure != std::errc() || dim < 0 || dims.size() == max_axes) corrupt("has no readable shape");
      dims.push_back(dim);
      text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
      const std::size_t next = text.find_first_not_of(", ");
      if (next == 0) corrupt("has no readable shape");
      text.remove_prefix(std::min(next, text.size()));
    }
    return dims;
  }

  // Returns the number of bytes; none if no file can have that many. Counts a size of 0 as 1 for this limit: PyTorch
  // multiplies the other sizes.
  static std::optional<std::size_t> bytes_of(const NpzArray& array) {
    std::size_t sizes = size_of(array.dtype);
    for (const std::int64_t dim : array.dims) {
      if (__builtin_mul_overflow(sizes, static_cast<std::size_t>(std::max<std::int64_t>(dim, 1)), &sizes)) return {};
    }
    if (sizes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) return {};
    return std::ranges::find(array.dims, 0) != array.dims.end() ? 0 : sizes;
  }

  const std::string& path_;
  std::string name_;
  std::string_view content_;
};

}  // namespace

std::vector<NpzArray> read_npz_arrays(const std::string& path) {
  const ZipArchive archive(path, "numpy.savez(path, name=array)", ZipArchive::Packing::deflated);
  std::vector<NpzArray> arrays;
  for (const ZipArchive::Entry& entry : archive.entries()) {
    std::string inflated, name = entry.name;
    const std::string_view content = archive::checked_content(archive, entry, inflated, written_with);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.push_back(NpyReader(path, name, content).read());
  }
  return arrays;
}

}  // namespace whence::recorder::inputs
