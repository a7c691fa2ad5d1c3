#include "annotator/match/tensor_sources.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <string>
#include <thread>

#include "annotator/match/tensor_content.h"
#include "annotator/match/tensor_sketches.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/flat_map.h"

namespace whence::match {

namespace {

// Returns the name with and without up to two names of wrappers at its beginning: `model.encoder.0.weight`.
std::vector<std::string_view> shortened(std::string_view name) {
  std::vector<std::string_view> names = {name};
  for (int i = 0; i < 2; ++i) {
    const std::size_t dot = names.back().find('.');
    if (dot == std::string_view::npos) break;
    names.push_back(names.back().substr(dot + 1));
  }
  return names;
}

// Removes the suffix that a quantiser or converter appended.
std::string_view without_suffix(std::string_view name) {
  constexpr std::array<std::string_view, 7> suffixes = {"_quantized", "_scale",  "_zero_point",      "_transposed",
                                                        "_fp16",      "_merged", "_DequantizeLinear"};
  for (const std::string_view suffix : suffixes) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

// Returns false if the sizes contradict a name: two models of one architecture share all names. Integers may be packed.
bool sizes_allow(const StructureTensor& tensor, const ReferenceParameter& parameter) {
  const bool sizes_known = parameter.dtype != DType::undefined;
  const bool as_exported = is_floating(from_onnx(tensor.data_type)) && without_suffix(tensor.name) == tensor.name;
  if (!sizes_known || !as_exported) return true;
  return tensor.elements() == element_count(parameter.dims);
}

// Returns true for a matrix of numbers that may be a weight, also a quantised one; false for tables of indices and for
// constants of one number.
bool may_be_weights(const StructureTensor& tensor) {
  const DType dtype = from_onnx(tensor.data_type);
  const bool counts = dtype == DType::int64 || dtype == DType::int32 || dtype == DType::boolean;
  return !counts && !tensor.is_vector() && tensor.elements() >= min_sketched_elements && !tensor.is_uniform();
}

// Returns true for the weights that ONNX Runtime reordered for its blocked layout: their elements have other positions.
IndexedVector<ForeignTensor, bool> tensors_in_blocks(const ForeignStructure& foreign) {
  IndexedVector<ForeignTensor, bool> in_blocks(foreign.tensors.size(), false);
  for (const auto& node : foreign.nodes) {
    if (!computes_in_blocks(node.domain)) continue;
    for (const ForeignValue input : node.inputs) {
      const ForeignTensor tensor = input.exists() ? foreign.root_tensor(input) : ForeignTensor();
      if (tensor.exists()) in_blocks[tensor] = true;
    }
  }
  return in_blocks;
}

// The bytes and sizes of a parameter.
struct Content {
  std::string_view digest;
  const std::vector<std::int64_t>* dims;
  bool operator==(const Content& other) const { return digest == other.digest && *dims == *other.dims; }
};

struct ContentHash {
  std::size_t operator()(const Content& content) const {
    const std::string_view sizes(reinterpret_cast<const char*>(content.dims->data()),
                                 content.dims->size() * sizeof(std::int64_t));
    return StringHash()(content.digest) ^ std::rotl(StringHash()(sizes), 1);
  }
};

}  // namespace

TensorSources::TensorSources(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& file,
                             const Reference& reference)
    : sources_(file.structure.tensors.size()) {
  const ForeignStructure& foreign = file.structure;
  match_names(foreign, reference);
  match_bytes(model, file, reference);
  open_names_of_equals(foreign, reference);
  match_shapes(foreign, reference);
  count(foreign, reference);
}

void TensorSources::match_names(const ForeignStructure& foreign, const Reference& reference) {
  FlatMap<std::string_view, ParameterIndex> by_name;
  by_name.reserve(reference.parameters.size());
  for (const ParameterIndex i : reference.parameters.keys()) {
    for (const std::string& name : reference.parameters[i].names) by_name.emplace(name, i);
  }
  for (const ForeignTensor i : foreign.tensors.keys()) {
    for (const std::string_view name : shortened(without_suffix(foreign.tensors[i].name))) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) continue;
      sources_[i].push_back({found->second, TensorSource::How::name, 1});
      break;
    }
  }
}

void TensorSources::match_bytes(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& file,
                                const Reference& reference) {
  const ForeignStructure& foreign = file.structure;
  const ParameterContent content(reference);
  const ParameterSketches sketches(reference);
  const FileWeights weights(file);
  if (content.empty()) return;
  std::atomic<std::size_t> next{0};
  IndexedVector<ForeignTensor, std::vector<TensorSource>> found(foreign.tensors.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < foreign.tensors.size(); i = next++) {
      const StructureTensor& tensor = foreign.tensors[ForeignTensor(i)];
      if (tensor.bytes.empty()) continue;
      found[ForeignTensor(i)] = content.find(tensor);
      release_bytes(model, file.external.get(), tensor);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1U, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  content.find_split(foreign.tensors.items(), found.items());
  const IndexedVector<ForeignTensor, bool> in_blocks = tensors_in_blocks(foreign);
  for (const ForeignTensor i : found.keys()) {
    const StructureTensor& tensor = foreign.tensors[i];
    if (sketches.empty() || tensor.bytes.empty()) continue;
    SketchFindings alike;
    const bool by_bytes = !found[i].empty();
    if (!by_bytes) {
      if (const auto elements = weights.of(tensor)) alike = sketches.find(*elements);
      found[i] = std::move(alike.sources);
    }
    if (may_be_weights(tensor) && !in_blocks[i]) {
      weights_.recognised += by_bytes || alike.recognised;
      weights_.compared += by_bytes || alike.recognised || alike.comparable;
    }
    release_bytes(model, file.external.get(), tensor);
  }
  IndexedVector<ParameterIndex, bool> held(reference.parameters.size(), false);
  for (const ForeignTensor i : found.keys()) {
    for (const TensorSource& source : found[i]) held[source.parameter] = true;
    sources_[i].insert(sources_[i].end(), found[i].begin(), found[i].end());
  }
  for (const ParameterIndex i : reference.parameters.keys()) {
    const ReferenceParameter& parameter = reference.parameters[i];
    const bool is_matrix = std::ranges::count_if(parameter.dims, [](std::int64_t size) { return size > 1; }) > 1;
    if (parameter.units.empty() || parameter.sketch.empty() || !is_matrix) continue;
    ++weights_.known;
    weights_.held += held[i];
  }
}

void TensorSources::open_names_of_equals(const ForeignStructure& foreign, const Reference& reference) {
  struct Equals {
    int all = 0, unnamed = 0;
  };
  IndexedVector<ParameterIndex, bool> named(reference.parameters.size(), false);
  for (const ForeignTensor i : foreign.tensors.keys()) {
    for (const TensorSource& source : sources_[i]) {
      if (source.how == TensorSource::How::name) named[source.parameter] = true;
    }
  }
  tsl::robin_map<Content, std::int32_t, ContentHash> groups;
  groups.reserve(reference.parameters.size());
  std::vector<Equals> equals;
  IndexedVector<ParameterIndex, std::int32_t> group_of(reference.parameters.size(), -1);
  for (const ParameterIndex i : reference.parameters.keys()) {
    const ReferenceParameter& parameter = reference.parameters[i];
    if (parameter.digests.content.empty()) continue;
    const auto [entry, first] =
        groups.emplace(Content{parameter.digests.content, &parameter.dims}, static_cast<std::int32_t>(equals.size()));
    if (first) equals.emplace_back();
    group_of[i] = entry->second;
    Equals& group = equals[static_cast<std::size_t>(entry->second)];
    ++group.all;
    group.unnamed += !named[i];
  }
  for (const ForeignTensor i : foreign.tensors.keys()) {
    auto& sources = sources_[i];
    if (sources.empty() || sources.front().how != TensorSource::How::name) continue;
    const ParameterIndex own = sources.front().parameter;
    const std::int32_t group = group_of[own];
    if (group < 0 || equals[static_cast<std::size_t>(group)].all < 2) continue;
    const double candidates = equals[static_cast<std::size_t>(group)].unnamed + 1;
    sources.front().candidates = candidates;
    const auto is_equal = [&](const TensorSource& source) {
      return source.how == TensorSource::How::bytes && group_of[source.parameter] == group;
    };
    // The name does not mean parameters that have their own names in the file.
    std::erase_if(sources, [&](const TensorSource& source) {
      return is_equal(source) && source.parameter != own && named[source.parameter];
    });
    for (TensorSource& source : sources) {
      if (!is_equal(source)) continue;
      source.candidates = candidates;
      source.is_common = source.is_common && candidates > 1;
    }
  }
}

// Finds initializers with changed bytes and names by sizes that only one parameter and one initializer have.
void TensorSources::match_shapes(const ForeignStructure& foreign, const Reference& reference) {
  struct Holders {
    ForeignTensor tensor;
    ParameterIndex parameter;
    int tensors = 0, parameters = 0;
  };
  std::map<std::vector<std::int64_t>, Holders> holders;
  for (const ParameterIndex i : reference.parameters.keys()) {
    if (reference.parameters[i].units.empty() || reference.parameters[i].dims.size() < 2) continue;
    Holders& entry = holders[sorted_sizes(reference.parameters[i].dims)];
    entry.parameter = i;
    ++entry.parameters;
  }
  for (const ForeignTensor i : foreign.tensors.keys()) {
    if (foreign.tensors[i].dims.size() < 2) continue;
    const auto found = holders.find(sorted_sizes(foreign.tensors[i].dims));
    if (found == holders.end()) continue;
    found->second.tensor = i;
    ++found->second.tensors;
  }
  for (const auto& [sizes, entry] : holders) {
    if (entry.tensors != 1 || entry.parameters != 1 || !sources_[entry.tensor].empty()) continue;
    sources_[entry.tensor].push_back({entry.parameter, TensorSource::How::shape, 1});
  }
}

void TensorSources::count(const ForeignStructure& foreign, const Reference& reference) {
  IndexedVector<ParameterIndex, char> named(reference.parameters.size(), 0), same(named), alike(named);
  std::map<std::vector<std::int64_t>, std::int64_t> shapes;
  for (const ForeignTensor i : foreign.tensors.keys()) {
    std::vector<std::int64_t> dims = foreign.tensors[i].dims;
    std::sort(dims.begin(), dims.end());
    ++shapes[dims];
    for (const TensorSource& source : sources_[i]) {
      if (source.how == TensorSource::How::shape) continue;
      if (source.how == TensorSource::How::sketch) {
        alike[source.parameter] = 1;
      } else if (source.by_content()) {
        same[source.parameter] = 1;
      } else if (sizes_allow(foreign.tensors[i], reference.parameters[source.parameter])) {
        named[source.parameter] = 1;
      }
    }
  }
  for (const ParameterIndex i : reference.parameters.keys()) {
    if (reference.parameters[i].units.empty() || !reference.parameters[i].weight) continue;
    ++counts_.all;
    std::vector<std::int64_t> dims = reference.parameters[i].dims;
    std::sort(dims.begin(), dims.end());
    const auto found = shapes.find(dims);
    const bool has_shape = found != shapes.end() && found->second-- > 0;
    counts_.all_by_name += named[i];
    counts_.all_by_shape += has_shape;
    counts_.all_by_content += same[i] != 0 || alike[i] != 0;
    counts_.by_bytes += same[i];
    counts_.by_name += same[i] == 0 && named[i] != 0;
    const bool unknown = same[i] == 0 && named[i] == 0;
    counts_.by_sketch += unknown && alike[i] != 0;
    counts_.by_shape += unknown && alike[i] == 0 && has_shape;
  }
}

}  // namespace whence::match
