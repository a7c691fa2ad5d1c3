#include "annotator/validate/external_data.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "schema/dtype.h"

namespace whence {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> bytes_needed(const OnnxTensor& tensor) {
  const DType dtype = from_onnx(tensor.data_type);
  if (dtype == DType::undefined) return std::nullopt;
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : tensor.dims) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

class Resolver {
 public:
  explicit Resolver(const OnnxSummary& model) {
    std::error_code ignored;  // the model has been read, so its folder is there
    folder_ = fs::weakly_canonical(fs::absolute(model.file->path()), ignored).parent_path();
  }

  void add(const OnnxTensor& tensor) {
    if (!tensor.external) return;
    ExternalTensor result;
    result.tensor = tensor.name;
    result.location = find_property(tensor.external_data, "location").value_or("");
    result.needed = bytes_needed(tensor);
    if (const auto text = find_property(tensor.external_data, "offset")) {
      const auto number = parse_number(*text);
      result.numbers_valid = number.has_value();
      result.offset = number.value_or(0);
    }
    if (const auto text = find_property(tensor.external_data, "length")) {
      result.length = parse_number(*text);
      result.numbers_valid = result.numbers_valid && result.length;
    }
    locate(result);
    found.push_back(std::move(result));
  }

  void add(const std::vector<OnnxNode>& nodes) {
    for (const OnnxNode& node : nodes) {
      for (const OnnxTensor& tensor : node.tensors) add(tensor);
      for (const OnnxGraph& graph : node.subgraphs) add(graph);
    }
  }

  void add(const OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) add(tensor);
    add(graph.nodes);
  }

  std::vector<ExternalTensor> found;

 private:
  struct Place {
    fs::path path;
    bool inside = false;
    std::optional<std::uint64_t> size;
  };

  // Thousands of tensors lie in one file: each location is looked at once.
  void locate(ExternalTensor& tensor) {
    const auto [entry, is_new] = places_.try_emplace(tensor.location);
    Place& place = entry->second;
    if (is_new) {
      std::error_code failure;
      place.path = fs::weakly_canonical(folder_ / tensor.location, failure);
      if (failure) place.path = (folder_ / tensor.location).lexically_normal();
      const auto [end, rest] = std::mismatch(folder_.begin(), folder_.end(), place.path.begin(), place.path.end());
      place.inside = end == folder_.end();
      if (fs::is_regular_file(place.path, failure)) place.size = fs::file_size(place.path, failure);
    }
    tensor.path = place.path;
    tensor.inside = place.inside;
    tensor.file_size = place.size;
  }

  fs::path folder_;
  std::map<std::string, Place> places_;
};

}  // namespace

std::vector<ExternalTensor> external_tensors(const OnnxSummary& model) {
  Resolver resolver(model);
  resolver.add(model.graph);
  for (const OnnxFunction& function : model.functions) resolver.add(function.nodes);
  return std::move(resolver.found);
}

}  // namespace whence
