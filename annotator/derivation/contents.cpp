#include "annotator/derivation/contents.h"

#include "annotator/onnx_file/release_part.h"
#include "annotator/program/tensor_values.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/printable.h"
#include "whence/diagnostics.h"

namespace whence::derivation {

std::string_view Contents::of(const FileTensor& tensor) {
  constexpr std::size_t large = std::size_t{1} << 20U;
  if (last_.size() > large) {
    onnx_file::release_part(*file_, last_);
    bytes_.release(last_);
  }
  last_ = bytes_.of(*tensor.tensor, typed_);
  return last_;
}

TensorData Contents::data(const FileTensor& tensor) {
  const std::string_view bytes = of(tensor);
  const DType dtype = from_onnx(tensor.tensor->data_type);
  const auto count = static_cast<std::size_t>(element_count(tensor.tensor->dims));
  if (dtype != DType::undefined && bytes.size() != count * size_of(dtype)) {
    throw Error(Code::corrupt_file,
                "the tensor '" + printable(tensor.name) + "' has " + std::to_string(bytes.size()) +
                    " bytes, but its sizes need " + std::to_string(count * size_of(dtype)),
                "export or download the file again", {.stage = "derive"});
  }
  return {dtype, tensor.tensor->dims, Bytes::copy_of(bytes.data(), bytes.size())};
}

std::optional<std::vector<std::int64_t>> integers_in(const TensorData& data, std::int64_t most) {
  const auto elements =
      is_integral(data.dtype) && data.element_count() <= most ? program::Elements::of(data) : std::nullopt;
  if (!elements) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < elements->size(); ++i) numbers.push_back(elements->integer(i));
  return numbers;
}

}  // namespace whence::derivation
