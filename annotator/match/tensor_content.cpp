#include "annotator/match/tensor_content.h"

#include <cstring>
#include <initializer_list>
#include <string_view>

#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/files/files.h"

namespace whence::match {
namespace {

constexpr std::size_t smallest = 8;      // bytes: equal content of smaller tensors means nothing
constexpr std::int64_t max_blocks = 64;  // blocks of one tensor that are digested
constexpr std::size_t max_pieces = 4;    // tensors into which a tool split a parameter: query, key, value and a gate
constexpr std::size_t max_alike = 16;    // parameters of equal content; if there are more, the content is no evidence

std::size_t element_size_of(int data_type) {
  const DType dtype = from_onnx(data_type);
  return dtype == DType::undefined ? 0 : size_of(dtype);
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

ParameterContent::ParameterContent(const Reference& reference) {
  for (const ParameterIndex i : reference.parameters.keys()) {
    const ReferenceParameter& parameter = reference.parameters[i];
    add(i, parameter.digests.content, parameter.element_size, parameter.dims);
    add(i, parameter.digests.transposed, parameter.element_size, parameter.dims);
    add(i, parameter.digests.float16, 2, parameter.dims);
    add(i, parameter.digests.bfloat16, 2, parameter.dims);
  }
}

void ParameterContent::add(ParameterIndex parameter, const std::string& digest, std::size_t element_size,
                           const std::vector<std::int64_t>& dims) {
  if (digest.empty()) return;
  auto& known = digests_[digest];
  if (known.empty() || known.back() != parameter) known.push_back(parameter);
  sizes_.insert(static_cast<std::size_t>(element_count(dims)) * element_size);
  if (dims.size() == 2) {
    matrices_[element_size].insert({dims[0], dims[1]});
    matrices_[element_size].insert({dims[1], dims[0]});
  }
  if (dims.size() == 1) vectors_[element_size].insert(dims[0]);
}

// One tensor, or the pieces of one parameter put together.
class ContentSearch {
 public:
  using How = TensorSource::How;

  ContentSearch(const ParameterContent& content, std::size_t element) : content_(content), element_(element) {}

  std::vector<TensorSource> run(std::string_view bytes, std::vector<std::int64_t> dims) {
    while (dims.size() > 1 && dims.front() == 1) dims.erase(dims.begin());  // recurrent weights: [1, 4 * hidden, input]
    one_parameter(bytes, dims, How::bytes);
    if (found_.empty()) blocks(bytes, dims, How::bytes);
    if (found_.empty() && dims.size() > 1 && dims.front() == 2) both_directions(bytes, dims);
    return std::move(found_);
  }

  void one_parameter(std::string_view bytes, const std::vector<std::int64_t>& dims, How how) {
    if (content_.sizes_.count(bytes.size()) == 0) return;
    look_up(bytes, how);
    // The cast of a transposed weight has no digest of its own.
    if (found_.empty() && element_ == 2 && dims.size() == 2) {
      look_up(transposed(bytes, dims[0], dims[1], element_), how);
    }
  }

  std::vector<TensorSource> take() { return std::move(found_); }

 private:
  void look_up(std::string_view bytes, How how) {
    const auto known = content_.digests_.find(digest_of(bytes.data(), bytes.size()));
    if (known == content_.digests_.end() || known->second.size() > max_alike) return;
    for (const ParameterIndex parameter : known->second) {
      found_.push_back({parameter, how, static_cast<double>(known->second.size())});
    }
  }

  // A bidirectional layer's tensor holds the forward and the reverse parameters.
  void both_directions(std::string_view bytes, const std::vector<std::int64_t>& dims) {
    const std::vector<std::int64_t> one(dims.begin() + 1, dims.end());
    for (const std::size_t first : {std::size_t{0}, bytes.size() / 2}) {
      const std::string_view half = bytes.substr(first, bytes.size() / 2);
      const std::vector<TensorSource> other = std::exchange(found_, {});
      one_parameter(half, one, How::part);
      if (found_.empty()) blocks(half, one, How::part);
      found_.insert(found_.begin(), other.begin(), other.end());
    }
  }

  void blocks(std::string_view bytes, const std::vector<std::int64_t>& dims, How as_one) {
    if (dims.size() == 2) matrix_blocks(bytes, dims[0], dims[1], as_one);
    if (dims.size() == 1) vector_blocks(bytes, dims[0]);
  }

  // ONNX keeps recurrent gates as i o f c and z r h, PyTorch as i f c o and r z n.
  void gates(std::string_view bytes, How how) {
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
    const auto shapes = content_.matrices_.find(element_);
    if (shapes == content_.matrices_.end()) return;
    for (const auto& [r, c] : shapes->second) {
      if (r <= 0 || c <= 0) continue;
      if (c == columns && r < rows && rows % r == 0 && rows / r <= max_blocks) row_blocks(bytes, r * columns);
      if (r == rows && c < columns && columns % c == 0 && columns / c <= max_blocks) column_blocks(bytes, columns, c);
      if (r == rows && c == columns) gates(bytes, as_one);
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
    const auto lengths = content_.vectors_.find(element_);
    if (lengths == content_.vectors_.end()) return;
    for (const std::int64_t each : lengths->second) {
      if (each <= 1 || each >= length || length % each != 0 || length / each > max_blocks) continue;
      const std::size_t size = static_cast<std::size_t>(each) * element_;
      for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
        const std::size_t before = found_.size();
        look_up(bytes.substr(at, size), How::part);
        if (found_.size() == before) gates(bytes.substr(at, size), How::part);
      }
      if (!found_.empty()) return;
    }
  }

  const ParameterContent& content_;
  std::size_t element_;
  std::vector<TensorSource> found_;
};

std::vector<TensorSource> ParameterContent::find(const StructureTensor& tensor) const {
  const std::size_t element = element_size_of(tensor.data_type);
  if (element == 0 || tensor.bytes.size() < smallest) return {};
  if (tensor.bytes.size() != static_cast<std::size_t>(tensor.elements()) * element) return {};
  return ContentSearch(*this, element).run(tensor.bytes, tensor.dims);
}

void ParameterContent::find_split(const std::vector<StructureTensor>& tensors,
                                  std::vector<std::vector<TensorSource>>& found) const {
  const auto alike = [&](std::size_t i, std::size_t first) {
    return found[i].empty() && tensors[i].data_type == tensors[first].data_type &&
           tensors[i].dims == tensors[first].dims && tensors[i].bytes.size() == tensors[first].bytes.size();
  };
  for (std::size_t first = 0; first < tensors.size(); ++first) {
    const StructureTensor& tensor = tensors[first];
    const std::size_t element = element_size_of(tensor.data_type);
    if (element == 0 || tensor.bytes.size() < smallest || tensor.dims.empty() || tensor.dims.size() > 2) continue;
    if (tensor.bytes.size() != static_cast<std::size_t>(tensor.elements()) * element) continue;
    for (std::size_t pieces = 2; pieces <= max_pieces && first + pieces <= tensors.size(); ++pieces) {
      if (!alike(first, first) || !alike(first + pieces - 1, first)) break;
      if (sizes_.count(pieces * tensor.bytes.size()) == 0) continue;
      std::string rows;
      for (std::size_t i = 0; i < pieces; ++i) rows += tensors[first + i].bytes;
      std::vector<std::int64_t> dims = tensor.dims;
      dims.front() *= static_cast<std::int64_t>(pieces);
      ContentSearch search(*this, element);
      search.one_parameter(rows, dims, TensorSource::How::bytes);
      std::vector<TensorSource> sources = search.take();
      if (sources.empty() && tensor.dims.size() == 2) {
        // Side by side: the pieces may be columns that a tool cut out of a transposed weight.
        const std::size_t row = static_cast<std::size_t>(tensor.dims[1]) * element;
        std::string beside;
        beside.reserve(rows.size());
        for (std::size_t at = 0; at < tensor.bytes.size(); at += row) {
          for (std::size_t i = 0; i < pieces; ++i) beside += tensors[first + i].bytes.substr(at, row);
        }
        search.one_parameter(beside, {tensor.dims[0], tensor.dims[1] * static_cast<std::int64_t>(pieces)},
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
