#include "annotator/pt2/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "schema/element_count.h"

namespace whence::pt2 {
namespace {

// Reads sizes or strides, which are numbers in stored tensors.
std::vector<std::int64_t> numbers(const Part& list) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int64_t number = list[i].at("as_int").integer();
    if (number < 0) list.reading().corrupt("a size or stride is negative");
    result.push_back(number);
  }
  return result;
}

bool row_major(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

// Returns the number of elements from the first to the last one that the strides reach; checks for overflow.
std::int64_t extent(const Reading& reading, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)) {
      reading.corrupt("the strides exceed the address space");
    }
  }
  return last + 1;
}

// Copies the elements in row-major order.
Bytes contiguous_bytes(std::span<const std::byte> memory, const std::vector<std::int64_t>& sizes,
                       const std::vector<std::int64_t>& strides, std::size_t element) {
  const std::int64_t count = element_count(sizes);
  std::string text(static_cast<std::size_t>(count) * element, '\0');
  std::vector<std::int64_t> index(sizes.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) at += index[axis] * strides[axis];
    std::memcpy(text.data() + static_cast<std::size_t>(i) * element,
                memory.data() + static_cast<std::size_t>(at) * element, element);
    for (std::size_t axis = sizes.size(); axis-- > 0 && ++index[axis] == sizes[axis];) index[axis] = 0;
  }
  return Bytes::owned(std::move(text));
}

}  // namespace

DType exported_dtype(std::int64_t scalar_type) {
  constexpr std::array<std::pair<std::int64_t, DType>, 19> table = {{{1, DType::uint8},
                                                                     {2, DType::int8},
                                                                     {3, DType::int16},
                                                                     {4, DType::int32},
                                                                     {5, DType::int64},
                                                                     {6, DType::float16},
                                                                     {7, DType::float32},
                                                                     {8, DType::float64},
                                                                     {10, DType::complex64},
                                                                     {11, DType::complex128},
                                                                     {12, DType::boolean},
                                                                     {13, DType::bfloat16},
                                                                     {28, DType::uint16},
                                                                     {29, DType::float8_e4m3fn},
                                                                     {30, DType::float8_e5m2},
                                                                     {31, DType::float8_e4m3fnuz},
                                                                     {32, DType::float8_e5m2fnuz},
                                                                     {34, DType::uint32},
                                                                     {35, DType::uint64}}};
  for (const auto& [number, dtype] : table) {
    if (number == scalar_type) return dtype;
  }
  return DType::undefined;
}

std::string exported_layout(std::int64_t layout) {
  constexpr std::array<const char*, 8> names = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
  return layout > 0 && layout < 8 ? names[static_cast<std::size_t>(layout)] : names[0];
}

std::string exported_memory_format(std::int64_t format) {
  constexpr std::array<const char*, 5> names = {"unknown", "contiguous_format", "channels_last", "channels_last_3d",
                                                "preserve_format"};
  return format > 0 && format < 5 ? names[static_cast<std::size_t>(format)] : names[0];
}

StoredTensors::StoredTensors(const ZipArchive& archive, std::string folder, const std::string& config)
    : archive_(archive), folder_(std::move(folder)), reading_{archive.path(), ""} {
  if (!archive.has(folder_ + config)) return;
  const auto json = JsonDocument::parse(archive.text(folder_ + config));
  if (!json) reading_.corrupt("'" + folder_ + config + "' is not JSON");
  Part(*json, reading_).at("config").entries([&](const std::string& name, const Part& payload) {
    reading_.entry = "tensor '" + name + "'";
    tensors_.emplace(name, read(payload));
  });
}

const StoredTensors::Tensor& StoredTensors::of(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  Reading{archive_.path(), "tensor '" + name + "'"}.corrupt("the archive does not hold its bytes");
}

// A tensor may be larger than its stored bytes (an axis of stride 0), but not by orders of magnitude. A size of 0 does
// not excuse the others.
void StoredTensors::require_sane(const std::vector<std::int64_t>& sizes, std::size_t element) const {
  constexpr std::uint64_t always = 1ULL << 28U;
  std::uint64_t size_without_zeros = element;
  for (const std::int64_t each : sizes) {
    if (!__builtin_mul_overflow(size_without_zeros, static_cast<std::uint64_t>(std::max<std::int64_t>(each, 1)),
                                &size_without_zeros))
      continue;
    reading_.corrupt("it is larger than any memory");
  }
  const auto size = static_cast<std::uint64_t>(element_count(sizes)) * element;
  if (size > std::max(always, archive_.size())) reading_.corrupt("it would be larger than the whole archive");
}

StoredTensors::Tensor StoredTensors::read(const Part& payload) const {
  const Place place{.file = archive_.path(), .stage = "read"};
  if (payload.at("use_pickle").flag()) {
    throw Error(Code::unsupported_feature, reading_.entry + " is stored as a Python object",
                "export the model with plain, dense tensors", place);
  }
  Tensor tensor;
  tensor.member = folder_ + payload.at("path_name").text();
  const Part meta = payload.at("tensor_meta");
  tensor.requires_grad = meta.at("requires_grad").flag();
  TensorData& data = tensor.data;
  data.dtype = exported_dtype(meta.at("dtype").integer());
  if (data.dtype == DType::undefined) {
    throw Error(Code::unsupported_feature, reading_.entry + " has a dtype that ONNX lacks",
                "convert it before the export", place);
  }
  if (const std::int64_t layout = meta.at("layout").integer(); exported_layout(layout) != "strided") {
    throw Error(Code::unsupported_feature, reading_.entry + " is " + exported_layout(layout) + ", not dense",
                "call .to_dense() on it before exporting", place);
  }
  if (meta.has("device") && meta.at("device").at("type").text() == "meta") {
    throw Error(Code::unsupported_feature, reading_.entry + " is on the meta device, where tensors have no bytes",
                "create the model on the CPU, or load its weights before the export", place);
  }
  data.shape = numbers(meta.at("sizes"));
  const std::vector<std::int64_t> strides = numbers(meta.at("strides"));
  const std::int64_t offset = meta.at("storage_offset").at("as_int").integer();
  if (strides.size() != data.shape.size() || offset < 0) reading_.corrupt("its strides do not fit its sizes");
  const std::size_t element = size_of(data.dtype);
  std::uint64_t first = 0, size = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(offset), element, &first) ||
      __builtin_mul_overflow(static_cast<std::uint64_t>(extent(reading_, data.shape, strides)), element, &size)) {
    reading_.corrupt("it is larger than any memory");
  }
  const Bytes memory = archive_.bytes(tensor.member, first, size);
  require_sane(data.shape, element);
  data.bytes = row_major(data.shape, strides)
                   ? memory
                   : contiguous_bytes(memory.in_memory().value(), data.shape, strides, element);
  tensor.storage = tensor.member + "+" + std::to_string(offset);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    tensor.storage += "," + std::to_string(data.shape[i]) + "/" + std::to_string(strides[i]);
  }
  return tensor;
}

}  // namespace whence::pt2
