// Reads numpy's .npz: a zip of .npy members, stored or deflated. C order and little-endian only, as numpy writes them
// on every machine LibTorch's CPU build runs on; Fortran order is transposed back.
#include <algorithm>
#include <regex>

#include "recorder/archive/zip_content.h"
#include "recorder/inputs/example_inputs.h"

namespace whence::recorder {

namespace {

constexpr auto written_with = "write the file with numpy.savez(path, name=array)";

[[noreturn]] void corrupt(const std::string& path, const std::string& message) {
  throw Error(Code::corrupt_file, message, written_with, {.file = path, .stage = "read"});
}

std::optional<at::ScalarType> type_of(const std::string& descr) {
  static const std::map<std::string, at::ScalarType> types = {
      {"|b1", at::kBool}, {"|u1", at::kByte}, {"|i1", at::kChar},  {"<i2", at::kShort},  {"<i4", at::kInt},
      {"<i8", at::kLong}, {"<f2", at::kHalf}, {"<f4", at::kFloat}, {"<f8", at::kDouble},
  };
  const auto found = types.find(descr);
  if (found == types.end()) return std::nullopt;
  return found->second;
}

at::Tensor parse_npy(const std::string& path, const std::string& member, std::string_view bytes) {
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0)
    corrupt(path, "member " + member + " is not a numpy array");
  const bool wide = bytes[6] >= 2;
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at])); };
  const std::size_t start = wide ? 12 : 10;
  if (bytes.size() < start) corrupt(path, "member " + member + " is cut off");
  const std::size_t length = wide ? byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24 : byte(8) | byte(9) << 8;
  if (bytes.size() - start < length) corrupt(path, "member " + member + " is cut off");
  const std::string header(bytes.substr(start, length));

  std::smatch descr, shape;
  if (!std::regex_search(header, descr, std::regex("'descr': *'([^']+)'")) ||
      !std::regex_search(header, shape, std::regex("'shape': *\\(([^)]*)\\)"))) {
    corrupt(path, "member " + member + " has no readable header");
  }
  const auto type = type_of(descr[1]);
  if (!type) corrupt(path, "member " + member + " has dtype " + descr[1].str() + ", which PyTorch lacks");
  const bool fortran = header.find("'fortran_order': True") != std::string::npos;
  std::vector<std::int64_t> dims;
  const std::string list = shape[1];
  static const std::regex number("[0-9]+");
  for (std::sregex_iterator at(list.begin(), list.end(), number), end; at != end; ++at)
    dims.push_back(std::stoll(at->str()));
  if (fortran) std::reverse(dims.begin(), dims.end());

  std::int64_t count = 1;
  for (std::int64_t dim : dims) count *= dim;
  at::Tensor tensor = at::empty({count}, *type);
  if (count < 0 || bytes.size() - start - length < tensor.nbytes()) corrupt(path, "member " + member + " is cut off");
  std::memcpy(tensor.data_ptr(), bytes.data() + start + length, tensor.nbytes());
  tensor = tensor.reshape(dims);
  if (!fortran) return tensor;
  std::vector<std::int64_t> back(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) back[i] = static_cast<std::int64_t>(dims.size() - 1 - i);
  return tensor.permute(back).contiguous();
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::string& path) {
  const ZipArchive archive(path, "numpy.savez(path, name=array)", ZipArchive::Packing::deflated);
  std::vector<std::pair<std::string, at::Tensor>> arrays;
  for (const ZipArchive::Entry& entry : archive.entries()) {
    std::string inflated;
    const std::string_view content = checked_content(archive, entry, inflated, written_with);
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.emplace_back(name, parse_npy(path, name, content));
  }
  return arrays;
}

}  // namespace whence::recorder
