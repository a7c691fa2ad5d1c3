#include "annotator/match/tensor_sources.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>

#include "schema/dtype.h"
#include "schema/files.h"

namespace whence {
namespace {

constexpr std::size_t smallest = 8;          // bytes: below, equal content means nothing
constexpr std::size_t chunk = 32ULL << 20U;  // of a released mapping

// Everything that may stand before a parameter's name is a wrapper's name: `model.encoder.0.weight`.
std::vector<std::string_view> shortened(std::string_view name) {
  std::vector<std::string_view> names = {name};
  for (int i = 0; i < 2; ++i) {
    const std::size_t dot = names.back().find('.');
    if (dot == std::string_view::npos) break;
    names.push_back(names.back().substr(dot + 1));
  }
  return names;
}

// What quantisers and converters append.
std::string_view without_suffix(std::string_view name) {
  constexpr std::array<std::string_view, 7> suffixes = {"_quantized", "_scale",  "_zero_point",      "_transposed",
                                                        "_fp16",      "_merged", "_DequantizeLinear"};
  for (const std::string_view suffix : suffixes) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

using ByDigest = std::unordered_map<std::string, std::vector<std::int32_t>>;

struct Wanted {
  ByDigest digests;
  std::set<std::size_t> sizes;                                                    // bytes of what has a digest
  std::map<std::size_t, std::set<std::pair<std::int64_t, std::int64_t>>> blocks;  // matrices by element size
  std::map<std::size_t, std::set<std::int64_t>> vectors;                          // lengths by element size

  explicit Wanted(const Reference& reference) {
    for (std::size_t i = 0; i < reference.parameters.size(); ++i) {
      const ReferenceParameter& parameter = reference.parameters[i];
      const auto add = [&](const std::string& digest, std::size_t element_size) {
        if (digest.empty()) return;
        auto& known = digests[digest];
        if (known.empty() || known.back() != static_cast<std::int32_t>(i))
          known.push_back(static_cast<std::int32_t>(i));
        std::int64_t elements = 1;
        for (const std::int64_t size : parameter.dims) elements *= size;
        sizes.insert(static_cast<std::size_t>(elements) * element_size);
        if (parameter.dims.size() == 2) {
          blocks[element_size].insert({parameter.dims[0], parameter.dims[1]});
          blocks[element_size].insert({parameter.dims[1], parameter.dims[0]});
        }
        if (parameter.dims.size() == 1) vectors[element_size].insert(parameter.dims[0]);
      };
      add(parameter.digest, parameter.element_size);
      add(parameter.digest_transposed, parameter.element_size);
      add(parameter.digest_float16, 2);
    }
  }
};

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

// One tensor's possible parameters, by content.
class Digester {
 public:
  Digester(const Wanted& wanted, const StructureTensor& tensor, std::string_view bytes)
      : wanted_(wanted), tensor_(tensor), bytes_(bytes), element_(element_size_of(tensor.data_type)) {}

  std::vector<TensorSource> run() {
    if (element_ == 0 || bytes_.size() < smallest) return {};
    if (bytes_.size() != static_cast<std::size_t>(tensor_.elements()) * element_) return {};
    std::vector<std::int64_t> dims = tensor_.dims;
    while (dims.size() > 1 && dims.front() == 1) dims.erase(dims.begin());  // recurrent weights: [1, 4 * hidden, input]
    if (wanted_.sizes.count(bytes_.size()) != 0) {
      look_up(bytes_, TensorSource::How::bytes);
      // The float16 cast of a transposed weight has no digest of its own.
      if (found_.empty() && element_ == 2 && dims.size() == 2) {
        look_up(transposed(bytes_, dims[0], dims[1], element_), TensorSource::How::bytes);
      }
    }
    if (!found_.empty()) return found_;
    if (dims.size() == 2) matrix_blocks(dims[0], dims[1]);
    if (dims.size() == 1) vector_blocks(dims[0]);
    return found_;
  }

 private:
  void look_up(std::string_view bytes, TensorSource::How how) {
    const auto known = wanted_.digests.find(digest_of(bytes.data(), bytes.size()));
    if (known == wanted_.digests.end()) return;
    for (const std::int32_t parameter : known->second) {
      found_.push_back({parameter, how, static_cast<double>(known->second.size())});
    }
  }

  // ONNX keeps recurrent gates as i o f c and z r h, PyTorch as i f c o and r z n.
  void gates(std::string_view bytes) {
    const auto reorder = [&](std::initializer_list<std::size_t> order) {
      const std::size_t gate = bytes.size() / order.size();
      if (gate * order.size() != bytes.size()) return;
      std::string text;
      text.reserve(bytes.size());
      for (const std::size_t each : order) text += bytes.substr(each * gate, gate);
      look_up(text, TensorSource::How::bytes);
    };
    reorder({0, 2, 3, 1});
    if (found_.empty()) reorder({1, 0, 2});
  }

  void matrix_blocks(std::int64_t rows, std::int64_t columns) {
    const auto shapes = wanted_.blocks.find(element_);
    if (shapes == wanted_.blocks.end()) return;
    for (const auto& [r, c] : shapes->second) {
      if (r <= 0 || c <= 0) continue;
      if (c == columns && r < rows && rows % r == 0 && rows / r <= 64) row_blocks(r);
      if (r == rows && c < columns && columns % c == 0 && columns / c <= 64) column_blocks(rows, columns, c);
      if (r == rows && c == columns) gates(bytes_);
      if (!found_.empty()) return;
    }
  }

  void row_blocks(std::int64_t rows) {
    const std::size_t size = static_cast<std::size_t>(rows * tensor_.dims.back()) * element_;
    for (std::size_t at = 0; at + size <= bytes_.size(); at += size) {
      look_up(bytes_.substr(at, size), TensorSource::How::part);
    }
  }

  void column_blocks(std::int64_t rows, std::int64_t columns, std::int64_t width) {
    const std::size_t stride = static_cast<std::size_t>(columns) * element_;
    const std::size_t piece = static_cast<std::size_t>(width) * element_;
    for (std::size_t column = 0; column < stride; column += piece) {
      std::string block;
      block.reserve(piece * static_cast<std::size_t>(rows));
      for (std::int64_t row = 0; row < rows; ++row) {
        block += bytes_.substr(static_cast<std::size_t>(row) * stride + column, piece);
      }
      look_up(block, TensorSource::How::part);
    }
  }

  void vector_blocks(std::int64_t length) {
    const auto lengths = wanted_.vectors.find(element_);
    if (lengths == wanted_.vectors.end()) return;
    for (const std::int64_t each : lengths->second) {
      if (each <= 1 || each >= length || length % each != 0 || length / each > 64) continue;
      const std::size_t size = static_cast<std::size_t>(each) * element_;
      for (std::size_t at = 0; at + size <= bytes_.size(); at += size) {
        look_up(bytes_.substr(at, size), TensorSource::How::part);
        if (found_.empty()) gates(bytes_.substr(at, size));
      }
      if (!found_.empty()) return;
    }
  }

  const Wanted& wanted_;
  const StructureTensor& tensor_;
  std::string_view bytes_;
  std::size_t element_;
  std::vector<TensorSource> found_;
};

}  // namespace

TensorSources::TensorSources(const OnnxSummary& model, const Structure& foreign, const Reference& reference)
    : sources_(foreign.tensors.size()) {
  match_names(foreign, reference);
  match_bytes(model, foreign, reference);
  match_shapes(foreign, reference);
  count(foreign, reference);
}

void TensorSources::match_names(const Structure& foreign, const Reference& reference) {
  std::unordered_map<std::string_view, std::int32_t> by_name;
  for (std::size_t i = 0; i < reference.parameters.size(); ++i) {
    for (const std::string& name : reference.parameters[i].names) by_name.emplace(name, static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < foreign.tensors.size(); ++i) {
    for (const std::string_view name : shortened(without_suffix(foreign.tensors[i].name))) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      sources_[i].push_back({found->second, TensorSource::How::name, 1});
      break;
    }
  }
}

void TensorSources::match_bytes(const OnnxSummary& model, const Structure& foreign, const Reference& reference) {
  const Wanted wanted(reference);
  if (wanted.digests.empty()) return;
  std::atomic<std::size_t> next{0};
  std::vector<std::vector<TensorSource>> found(foreign.tensors.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < foreign.tensors.size(); i = next++) {
      const StructureTensor& tensor = foreign.tensors[i];
      if (tensor.bytes.empty()) continue;
      found[i] = Digester(wanted, tensor, tensor.bytes).run();
      if (tensor.bytes.size() >= chunk && model.file->text().data() <= tensor.bytes.data() &&
          tensor.bytes.data() < model.file->text().data() + model.file->size()) {
        model.file->release(static_cast<std::size_t>(tensor.bytes.data() - model.file->text().data()),
                            tensor.bytes.size());
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1U, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < found.size(); ++i) {
    sources_[i].insert(sources_[i].end(), found[i].begin(), found[i].end());
  }
}

// Changed bytes under another name: sizes that one parameter and one initializer alone have.
void TensorSources::match_shapes(const Structure& foreign, const Reference& reference) {
  struct Holders {
    std::int32_t tensor = -1, parameter = -1;
    int tensors = 0, parameters = 0;
  };
  std::map<std::vector<std::int64_t>, Holders> holders;
  const auto key = [](std::vector<std::int64_t> dims) {
    std::erase(dims, 1);
    std::sort(dims.begin(), dims.end());
    return dims;
  };
  for (std::size_t i = 0; i < reference.parameters.size(); ++i) {
    if (reference.parameters[i].units.empty() || reference.parameters[i].dims.size() < 2) continue;
    Holders& entry = holders[key(reference.parameters[i].dims)];
    entry.parameter = static_cast<std::int32_t>(i);
    ++entry.parameters;
  }
  for (std::size_t i = 0; i < foreign.tensors.size(); ++i) {
    if (foreign.tensors[i].dims.size() < 2) continue;
    const auto found = holders.find(key(foreign.tensors[i].dims));
    if (found == holders.end()) continue;
    found->second.tensor = static_cast<std::int32_t>(i);
    ++found->second.tensors;
  }
  for (const auto& [sizes, entry] : holders) {
    if (entry.tensors != 1 || entry.parameters != 1 || !sources_[entry.tensor].empty()) continue;
    sources_[entry.tensor].push_back({entry.parameter, TensorSource::How::shape, 1});
  }
}

void TensorSources::count(const Structure& foreign, const Reference& reference) {
  std::vector<char> named(reference.parameters.size(), 0), same(named);
  std::map<std::vector<std::int64_t>, std::int64_t> shapes;
  for (std::size_t i = 0; i < foreign.tensors.size(); ++i) {
    std::vector<std::int64_t> dims = foreign.tensors[i].dims;
    std::sort(dims.begin(), dims.end());
    ++shapes[dims];
    for (const TensorSource& source : sources_[i]) {
      if (source.how == TensorSource::How::shape) continue;
      (source.how == TensorSource::How::name ? named : same)[source.parameter] = 1;
    }
  }
  for (std::size_t i = 0; i < reference.parameters.size(); ++i) {
    if (reference.parameters[i].units.empty()) continue;
    ++parameters;
    by_name += named[i];
    by_bytes += same[i];
    std::vector<std::int64_t> dims = reference.parameters[i].dims;
    std::sort(dims.begin(), dims.end());
    if (const auto found = shapes.find(dims); found != shapes.end() && found->second-- > 0) ++by_shape;
  }
}

}  // namespace whence
