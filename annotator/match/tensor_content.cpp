#include "annotator/match/tensor_content.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "annotator/program/tensor_values.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/files/files.h"
#include "schema/small_floats.h"

namespace whence::match {
namespace {

constexpr std::size_t min_bytes = 8;     // equal content of smaller tensors is no evidence
constexpr std::int64_t max_blocks = 64;  // blocks of one tensor that are digested
constexpr std::size_t max_pieces = 4;    // tensors into which a tool split a parameter: query, key, value and a gate

// Returns the signed type: tools store quantised weights with or without sign.
DType as_compared(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return DType::int8;
    case DType::uint16:
      return DType::int16;
    case DType::uint32:
      return DType::int32;
    case DType::uint64:
      return DType::int64;
    default:
      return dtype;
  }
}

template <class Integer>
bool is_regular(std::string_view bytes) {
  constexpr std::size_t short_list = 8;
  const std::size_t count = bytes.size() / sizeof(Integer);
  const auto at = [&](std::size_t i) {
    Integer number;
    std::memcpy(&number, bytes.data() + i * sizeof(Integer), sizeof(Integer));
    return static_cast<std::uint64_t>(number);
  };
  for (std::size_t i = 2; count > short_list && i < count; ++i) {
    if (at(i) - at(i - 1) != at(1) - at(0)) return false;
  }
  return true;
}

// Returns true for integers that are common in any graph: a few, one number repeated, or a range.
bool is_common_list(DType dtype, std::string_view bytes) {
  switch (as_compared(dtype)) {
    case DType::int64:
      return is_regular<std::int64_t>(bytes);
    case DType::int32:
      return is_regular<std::int32_t>(bytes);
    case DType::boolean:
      return is_uniform(bytes, size_of(dtype));
    default:
      return is_integral(dtype) && is_uniform(bytes, size_of(dtype));
  }
}

// Returns float32 numbers as the 16-bit type; an empty string if the type cannot represent one of them exactly.
template <std::uint16_t (*narrow)(float), float (*widen)(std::uint16_t)>
std::string narrowed_exactly(std::string_view bytes) {
  std::string result(bytes.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    const std::uint16_t bits = narrow(std::bit_cast<float>(number));
    if (std::bit_cast<std::uint32_t>(widen(bits)) != number) return "";
    std::memcpy(result.data() + i * sizeof bits, &bits, sizeof bits);
  }
  return result;
}

std::string transposed(std::string_view bytes, std::int64_t rows, std::int64_t columns, std::size_t element) {
  std::string result(bytes.size(), '\0');
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < r; ++i) {
    for (std::size_t j = 0; j < c; ++j) {
      std::memcpy(result.data() + (j * r + i) * element, bytes.data() + (i * c + j) * element, element);
    }
  }
  return result;
}

std::string columns_of(std::string_view bytes, std::size_t row_size, std::size_t first, std::size_t width) {
  std::string block;
  block.reserve(bytes.size() / row_size * width);
  for (std::size_t row = 0; row < bytes.size(); row += row_size) block += bytes.substr(row + first, width);
  return block;
}

}  // namespace

// All biases of a new model have the same content. Each candidate is a pair to compare, except without a structure,
// where it only takes an entry in a list.
ParameterContent::ParameterContent(const Reference& reference)
    : reference_(reference), max_alike_(reference.of_weights ? 1024 : 16) {
  for (const ParameterIndex i : reference.parameters.keys()) {
    const ReferenceParameter& parameter = reference.parameters[i];
    add(i, parameter.digests.content, parameter.dtype, parameter.dims);
    add(i, parameter.digests.transposed, parameter.dtype, parameter.dims);
    add(i, parameter.digests.float16, DType::float16, parameter.dims);
    add(i, parameter.digests.bfloat16, DType::bfloat16, parameter.dims);
  }
}

void ParameterContent::add(ParameterIndex parameter, const std::string& digest, DType dtype,
                           const std::vector<std::int64_t>& dims) {
  if (digest.empty() || dtype == DType::undefined) return;
  dtype = as_compared(dtype);
  auto& known = digests_[dtype][digest];
  if (known.empty() || known.back() != parameter) known.push_back(parameter);
  sizes_[dtype].insert(static_cast<std::size_t>(element_count(dims)) * size_of(dtype));
  if (dims.size() == 2) {
    matrices_[dtype].insert({dims[0], dims[1]});
    matrices_[dtype].insert({dims[1], dims[0]});
  }
  if (dims.size() == 1) vectors_[dtype].insert(dims[0]);
}

bool ParameterContent::has_same_sizes(ParameterIndex parameter, const std::vector<std::int64_t>& dims) const {
  return sorted_sizes(reference_.parameters[parameter].dims) == sorted_sizes(dims);
}

// Looks up one tensor, or the concatenated pieces of one parameter.
class ContentSearch {
 public:
  using How = TensorSource::How;

  ContentSearch(const ParameterContent& content, DType dtype)
      : content_(content), dtype_(as_compared(dtype)), element_(size_of(dtype)) {
    const auto known = content.digests_.find(dtype_);
    if (known != content.digests_.end()) digests_ = &known->second;
  }

  std::vector<TensorSource> run(std::string_view bytes, std::vector<std::int64_t> dims) {
    if (digests_ == nullptr) return {};
    if (is_uniform(bytes, element_)) return find_uniform(bytes, dims);
    while (dims.size() > 1 && dims.front() == 1) dims.erase(dims.begin());  // recurrent weights: [1, 4 * hidden, input]
    find_parameter(bytes, dims, How::bytes);
    if (found_.empty()) find_blocks(bytes, dims, How::bytes);
    if (found_.empty() && dims.size() > 1 && dims.front() == 2) find_both_directions(bytes, dims);
    return std::move(found_);
  }

  void find_parameter(std::string_view bytes, const std::vector<std::int64_t>& dims, How how) {
    if (digests_ == nullptr || !content_.sizes_.at(dtype_).contains(bytes.size())) return;
    look_up(bytes, how);
    // The cast of a transposed weight has no digest of its own.
    if (found_.empty() && element_ == 2 && dims.size() == 2) {
      look_up(transposed(bytes, dims[0], dims[1], element_), how);
    }
    // Several matrices in one tensor, each transposed: the weights of experts.
    if (found_.empty() && dims.size() == 3) {
      const std::size_t matrix = static_cast<std::size_t>(dims[1] * dims[2]) * element_;
      std::string turned;
      turned.reserve(bytes.size());
      for (std::size_t at = 0; at < bytes.size(); at += matrix) {
        turned += transposed(bytes.substr(at, matrix), dims[1], dims[2], element_);
      }
      look_up(turned, how);
    }
  }

  std::vector<TensorSource> take() { return std::move(found_); }

 private:
  void look_up(std::string_view bytes, How how) {
    if (how == How::part && is_uniform(bytes, element_)) return;  // tools pad with zeros
    const auto known = digests_->find(digest_of(bytes.data(), bytes.size()));
    if (known == digests_->end() || known->second.size() > content_.max_alike_) return;
    for (const ParameterIndex parameter : known->second) {
      found_.push_back({parameter, how, static_cast<double>(known->second.size())});
    }
  }

  // Finds parameters for a tensor of equal elements.
  std::vector<TensorSource> find_uniform(std::string_view bytes, const std::vector<std::int64_t>& dims) {
    find_parameter(bytes, dims, How::bytes);
    std::erase_if(found_, [&](const TensorSource& source) { return !content_.has_same_sizes(source.parameter, dims); });
    for (TensorSource& source : found_) {
      source.candidates = static_cast<double>(std::max<std::size_t>(found_.size(), 2));
      source.is_common = true;
    }
    return std::move(found_);
  }

  // Finds the forward and the reverse parameters in the tensor of a bidirectional layer.
  void find_both_directions(std::string_view bytes, const std::vector<std::int64_t>& dims) {
    const std::vector<std::int64_t> one(dims.begin() + 1, dims.end());
    for (const std::size_t first : {std::size_t{0}, bytes.size() / 2}) {
      const std::string_view half = bytes.substr(first, bytes.size() / 2);
      const std::vector<TensorSource> other = std::exchange(found_, {});
      find_parameter(half, one, How::part);
      if (found_.empty()) find_blocks(half, one, How::part);
      found_.insert(found_.begin(), other.begin(), other.end());
    }
  }

  void find_blocks(std::string_view bytes, const std::vector<std::int64_t>& dims, How as_one) {
    if (dims.size() == 2) matrix_blocks(bytes, dims[0], dims[1], as_one);
    if (dims.size() == 1) vector_blocks(bytes, dims[0]);
  }

  // Finds parameters with recurrent gates, which ONNX orders i o f c and z r h, and PyTorch i f c o and r z n.
  void find_gates(std::string_view bytes, How how) {
    const auto reorder = [&](std::initializer_list<std::size_t> order) {
      const std::size_t gate = bytes.size() / order.size();
      if (gate * order.size() != bytes.size()) return;
      std::string text;
      text.reserve(bytes.size());
      for (const std::size_t each : order) text += bytes.substr(each * gate, gate);
      look_up(text, how);
    };
    const std::size_t before = found_.size();
    reorder({0, 2, 3, 1});
    if (found_.size() == before) reorder({1, 0, 2});
  }

  void matrix_blocks(std::string_view bytes, std::int64_t rows, std::int64_t columns, How as_one) {
    const auto shapes = content_.matrices_.find(dtype_);
    if (shapes == content_.matrices_.end()) return;
    for (const auto& [r, c] : shapes->second) {
      if (r <= 0 || c <= 0) continue;
      if (c == columns && r < rows && rows % r == 0 && rows / r <= max_blocks) row_blocks(bytes, r * columns);
      if (r == rows && c < columns && columns % c == 0 && columns / c <= max_blocks) column_blocks(bytes, columns, c);
      if (r == rows && c == columns) find_gates(bytes, as_one);
      if (!found_.empty()) return;
    }
  }

  void row_blocks(std::string_view bytes, std::int64_t elements) {
    const std::size_t size = static_cast<std::size_t>(elements) * element_;
    for (std::size_t at = 0; at + size <= bytes.size(); at += size) look_up(bytes.substr(at, size), How::part);
  }

  void column_blocks(std::string_view bytes, std::int64_t columns, std::int64_t width) {
    const std::size_t row = static_cast<std::size_t>(columns) * element_;
    const std::size_t piece = static_cast<std::size_t>(width) * element_;
    for (std::size_t first = 0; first < row; first += piece) {
      look_up(columns_of(bytes, row, first, piece), How::part);
    }
  }

  void vector_blocks(std::string_view bytes, std::int64_t length) {
    const auto lengths = content_.vectors_.find(dtype_);
    if (lengths == content_.vectors_.end()) return;
    for (const std::int64_t each : lengths->second) {
      if (each <= 1 || each >= length || length % each != 0 || length / each > max_blocks) continue;
      const std::size_t size = static_cast<std::size_t>(each) * element_;
      for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
        const std::size_t before = found_.size();
        look_up(bytes.substr(at, size), How::part);
        if (found_.size() == before) find_gates(bytes.substr(at, size), How::part);
      }
      if (!found_.empty()) return;
    }
  }

  const ParameterContent& content_;
  DType dtype_;
  std::size_t element_;
  const FlatMap<std::string_view, std::vector<ParameterIndex>>* digests_ = nullptr;  // parameters of this dtype
  std::vector<TensorSource> found_;
};

std::vector<TensorSource> ParameterContent::find(const StructureTensor& tensor) const {
  const DType dtype = from_onnx(tensor.data_type);
  if (dtype == DType::undefined || tensor.bytes.size() < min_bytes) return {};
  if (tensor.bytes.size() != static_cast<std::size_t>(tensor.elements()) * size_of(dtype)) return {};
  if (is_common_list(dtype, tensor.bytes)) return {};
  std::vector<TensorSource> found = find_as(dtype, tensor.bytes, tensor.dims);
  if (!found.empty() || dtype != DType::float32) return found;
  if (digests_.contains(DType::bfloat16)) {
    const std::string narrow = narrowed_exactly<program::bfloat16_bits, from_bfloat16_bits>(tensor.bytes);
    if (!narrow.empty()) found = find_as(DType::bfloat16, narrow, tensor.dims);
  }
  if (found.empty() && digests_.contains(DType::float16)) {
    const std::string narrow = narrowed_exactly<program::float16_bits, from_float16_bits>(tensor.bytes);
    if (!narrow.empty()) found = find_as(DType::float16, narrow, tensor.dims);
  }
  return found;
}

std::vector<TensorSource> ParameterContent::find_as(DType dtype, std::string_view bytes,
                                                    const std::vector<std::int64_t>& dims) const {
  return ContentSearch(*this, dtype).run(bytes, dims);
}

void ParameterContent::find_split(const std::vector<StructureTensor>& tensors,
                                  std::vector<std::vector<TensorSource>>& found) const {
  const auto alike = [&](std::size_t i, std::size_t first) {
    return found[i].empty() && tensors[i].data_type == tensors[first].data_type &&
           tensors[i].dims == tensors[first].dims && tensors[i].bytes.size() == tensors[first].bytes.size();
  };
  for (std::size_t first = 0; first < tensors.size(); ++first) {
    const StructureTensor& tensor = tensors[first];
    const DType dtype = from_onnx(tensor.data_type);
    const std::size_t element = dtype == DType::undefined ? 0 : size_of(dtype);
    const auto sizes = sizes_.find(as_compared(dtype));
    if (element == 0 || sizes == sizes_.end() || tensor.bytes.size() < min_bytes || tensor.dims.empty() ||
        tensor.dims.size() > 2)
      continue;
    if (tensor.bytes.size() != static_cast<std::size_t>(tensor.elements()) * element) continue;
    if (!found[first].empty() || is_uniform(tensor.bytes, element) || is_common_list(dtype, tensor.bytes)) continue;
    for (std::size_t pieces = 2; pieces <= max_pieces && first + pieces <= tensors.size(); ++pieces) {
      if (!alike(first, first) || !alike(first + pieces - 1, first)) break;
      if (!sizes->second.contains(pieces * tensor.bytes.size())) continue;
      std::string rows;
      for (std::size_t i = 0; i < pieces; ++i) rows += tensors[first + i].bytes;
      std::vector<std::int64_t> dims = tensor.dims;
      dims.front() *= static_cast<std::int64_t>(pieces);
      ContentSearch search(*this, dtype);
      search.find_parameter(rows, dims, TensorSource::How::bytes);
      std::vector<TensorSource> sources = search.take();
      if (sources.empty() && tensor.dims.size() == 2) {
        // Concatenates the columns: a tool may have split a transposed weight.
        const std::size_t row = static_cast<std::size_t>(tensor.dims[1]) * element;
        std::string concatenated;
        concatenated.reserve(rows.size());
        for (std::size_t at = 0; at < tensor.bytes.size(); at += row) {
          for (std::size_t i = 0; i < pieces; ++i) concatenated += tensors[first + i].bytes.substr(at, row);
        }
        search.find_parameter(concatenated, {tensor.dims[0], tensor.dims[1] * static_cast<std::int64_t>(pieces)},
                              TensorSource::How::bytes);
        sources = search.take();
      }
      if (sources.empty()) continue;
      for (std::size_t i = 0; i < pieces; ++i) found[first + i] = sources;
      break;
    }
  }
}

}  // namespace whence::match
