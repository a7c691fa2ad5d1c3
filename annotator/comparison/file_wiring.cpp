#include "annotator/comparison/file_wiring.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "annotator/comparison/node_counts.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/onnx_file/node_attributes.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/printable.h"

namespace whence::comparison {

using derivation::FileTensors;
using derivation::is_arithmetic;
using derivation::is_movement;
using derivation::no_tensor;
using derivation::TensorNumber;

using onnx_file::OnnxNode;

namespace {

bool holds_real_numbers(const FileTensors& tensors, std::string_view value) {
  const TensorNumber tensor = tensors.find(value);
  return tensor != no_tensor && is_floating(from_onnx(tensors[tensor].tensor->data_type));
}

}  // namespace

DType conversion_of(const OnnxNode& node) {
  if (node.op_type != "Cast") return DType::undefined;
  return from_onnx(static_cast<int>(onnx_file::integer_attribute(node, "to", 0)));
}

bool truncates(const OnnxNode& node) {
  const DType to = conversion_of(node);
  return to != DType::undefined && (is_integral(to) || to == DType::boolean);
}

FileWiring::FileWiring(const std::vector<const OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
                       const WrittenOut& written, const Wiring& program, const FileTensors& tensors,
                       std::vector<Placed>& placed)
    : nodes_(nodes), program_(program), tensors_(tensors), placed_(placed) {
  for (std::size_t i = 0; i < nodes.size(); ++i) numbers_.emplace(nodes[i], i);
  std::size_t place = 0;
  for (const onnx_file::OnnxValue& input : graph.inputs) {
    // Before IR version 4, initializers are inputs as well.
    if (tensors.find(input.name) != no_tensor) continue;
    if (std::ranges::find(written.caches, input.name, &CachePair::past) != written.caches.end()) continue;
    inputs_.emplace(input.name, program.input_named(input.name).value_or(place));
    ++place;
  }
}

FileWiring::Source FileWiring::source_of(std::string_view value) const {
  constexpr int longest = 100;  // a chain of movements
  bool is_split = false;
  std::vector<const OnnxNode*> movements;
  for (int steps = 0; steps < longest; ++steps) {
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr) {
      const auto input = inputs_.find(value);
      if (input == inputs_.end()) return {};
      return {{Wiring::of_input(input->second)}, value, true, false, false, std::move(movements)};
    }
    movements.push_back(maker);
    if ((is_movement(maker->op_type) || maker->op_type == "Tile") && !maker->inputs.empty()) {
      is_split = is_split || maker->op_type == "Split";
      value = maker->inputs[0];
      continue;
    }
    if (const std::string_view sum = rescaled_sum(*maker, tensors_); !sum.empty()) {
      value = sum;
      continue;
    }
    const auto number = numbers_.find(maker);
    if (number == numbers_.end()) return {};
    const Placed& placed = placed_[number->second];
    if (placed.is_size) return {};
    // An embedding stands for one operation, unlike the other choices of elements.
    const bool embeds = maker->op_type.starts_with("Gather") && !maker->inputs.empty() &&
                        holds_real_numbers(tensors_, maker->inputs[0]);
    const bool computes = is_arithmetic(maker->op_type) || embeds;
    return {placed.own_operations(), value, placed.is_certain && computes, computes, is_split || placed.share < 1,
            std::move(movements)};
  }
  return {};
}

void FileWiring::keep_common(std::set<std::int32_t>& candidates, const std::set<std::int32_t>& readers) const {
  std::set<std::int32_t> common, roles;
  std::ranges::set_intersection(candidates, readers, std::inserter(common, common.end()));
  if (common.empty()) {
    for (const std::int32_t each : readers) roles.insert(program_.role_of(each));
    std::ranges::copy_if(candidates, std::inserter(common, common.end()),
                         [&](std::int32_t each) { return roles.contains(program_.role_of(each)); });
  }
  candidates = std::move(common);
}

void FileWiring::place_remaining(const std::function<bool(const OnnxNode&, std::int32_t)>& fits) {
  constexpr int rounds = 3;  // a node may read others that are placed later
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const OnnxNode& node = *nodes_[i];
      const bool moves = is_movement(node.op_type) && !truncates(node);
      if (!placed_[i].operations.empty() || moves || !node.subgraphs.empty()) continue;
      std::vector<Source> sources;
      for (const std::string_view input : node.inputs) {
        if (Source source = source_of(input); !source.operations.empty()) sources.push_back(std::move(source));
      }
      // A mask may be computed once for several operations, so that it shows only one of its readers.
      if (std::ranges::any_of(sources, &Source::is_arithmetic)) {
        std::erase_if(sources, [](const Source& source) { return !source.is_arithmetic; });
      }
      std::set<std::int32_t> candidates;
      for (std::size_t at = 0; at < sources.size(); ++at) {
        const std::set<std::int32_t> readers = sources[at].is_split ? program_.readers_of_parts(sources[at].operations)
                                                                    : program_.readers_of(sources[at].operations);
        if (at == 0) candidates = readers;
        keep_common(candidates, readers);
      }
      std::erase_if(candidates, [&](std::int32_t each) { return each < 0 || !fits(node, each); });
      placed_[i].operations.assign(candidates.begin(), candidates.end());
    }
  }
}

std::vector<std::int32_t> FileWiring::operations_after(std::size_t number) const {
  const OnnxNode* node = nodes_[number];
  const auto is_number = [&](std::string_view input) {
    const OnnxNode* const maker = tensors_.producer(input);
    const bool is_dequantised = maker != nullptr && maker->op_type == "DequantizeLinear" && !maker->inputs.empty();
    const TensorNumber tensor = tensors_.find(is_dequantised ? maker->inputs[0] : input);
    return tensor != no_tensor && element_count(tensors_[tensor].tensor->dims) == 1;
  };
  return std::ranges::none_of(node->inputs, is_number) ? std::vector<std::int32_t>() : operations_reading(number);
}

std::vector<std::int32_t> FileWiring::operations_reading(std::size_t number) const {
  const OnnxNode* node = nodes_[number];
  constexpr int longest = 100;  // a chain of movements
  for (int steps = 0; steps < longest; ++steps) {
    if (node->outputs.empty() || tensors_.readers(node->outputs[0]).size() != 1) return {};
    node = tensors_.readers(node->outputs[0])[0];
    if (is_movement(node->op_type)) continue;
    const auto found = numbers_.find(node);
    return found == numbers_.end() ? std::vector<std::int32_t>() : placed_[found->second].operations;
  }
  return {};
}

bool FileWiring::reads_numbers(std::size_t number) const {
  const OnnxNode& node = *nodes_[number];
  if (node.inputs.empty()) return false;
  const TensorNumber tensor = tensors_.find(node.inputs[0]);
  if (tensor != no_tensor) return is_floating(from_onnx(tensors_[tensor].tensor->data_type));
  return holds_numbers(node.inputs[0], 0);
}

bool FileWiring::holds_numbers(std::string_view value, int depth) const {
  // The operands of which operators choose elements; of Concat all.
  static const std::map<std::string_view, std::vector<std::size_t>> choosing = {{"Compress", {0}},
                                                                                {"Gather", {0}},
                                                                                {"GatherElements", {0}},
                                                                                {"GatherND", {0}},
                                                                                {"Pad", {0}},
                                                                                {"Tile", {0}},
                                                                                {"ScatterElements", {0, 2}},
                                                                                {"ScatterND", {0, 2}},
                                                                                {"Slice", {0}},
                                                                                {"TopK", {0}},
                                                                                {"Where", {1, 2}}};
  constexpr int deepest = 10;  // choices, one of the result of another
  const Source source = source_of(value);
  if (source.is_arithmetic) return true;
  const OnnxNode* const maker = tensors_.producer(source.value);
  if (maker == nullptr || depth == deepest) return false;
  const bool is_index = maker->op_type == "TopK" && maker->outputs.size() > 1 && maker->outputs[1] == source.value;
  if (is_index) return false;
  const auto holds = [&](std::string_view operand) { return holds_numbers(operand, depth + 1); };
  if (maker->op_type == "Concat") return std::ranges::any_of(maker->inputs, holds);
  const auto found = choosing.find(maker->op_type);
  return found != choosing.end() && std::ranges::any_of(found->second, [&](std::size_t slot) {
           return slot < maker->inputs.size() && holds(maker->inputs[slot]);
         });
}

std::string FileWiring::difference(std::size_t number, const IsSaturated& is_saturated) const {
  const OnnxNode& node = *nodes_[number];
  if (!placed_[number].is_certain || !is_arithmetic(node.op_type)) return "";
  const std::vector<std::int32_t>& own = placed_[number].own_operations();
  for (const std::string_view input : node.inputs) {
    const Source source = source_of(input);
    if (!source.is_certain || source.operations.empty()) continue;
    if (program_.connects(source.operations, own)) continue;
    if (source.is_split && program_.reach(source.operations, own, Wiring::Between::selections)) continue;
    const bool is_input = source.operations[0] < 0;
    if (is_input && program_.reach(source.operations, own, Wiring::Between::conditions)) continue;
    const auto between = program_.readers_of(source.operations);
    const bool is_cut = std::ranges::any_of(between, [&](std::int32_t operation) {
      return program_.connects({operation}, own) && std::ranges::any_of(source.movements, [&](const OnnxNode* each) {
               return is_saturated(*each, operation);
             });
    });
    if (is_cut) continue;
    return "reads '" + printable(source.value) + "', which its operation does not read";
  }
  return "";
}

std::vector<std::int32_t> FileWiring::certain_makers_of(std::string_view value, const IsSaturated& is_saturated) const {
  const Source source = source_of(value);
  if (!source.is_certain) return {};
  std::vector<std::int32_t> makers = source.operations;
  for (const std::int32_t reader : program_.readers_of(source.operations)) {
    const bool is_cut =
        std::ranges::any_of(source.movements, [&](const OnnxNode* each) { return is_saturated(*each, reader); });
    if (is_cut) makers.push_back(reader);
  }
  return makers;
}

bool FileWiring::reads_one_of_several(std::size_t number) const {
  const OnnxNode& node = *nodes_[number];
  if (!placed_[number].is_certain || node.inputs.size() != 2) return false;
  const Source one = source_of(node.inputs[0]), other = source_of(node.inputs[1]);
  const auto is_whole = [](const Source& source) {
    return source.is_certain && source.is_arithmetic && !source.is_split;
  };
  if (!is_whole(one) || !is_whole(other) || one.operations != other.operations) return false;
  const std::vector<std::int32_t>& own = placed_[number].own_operations();
  const auto is_own = [&](std::int32_t operation) { return std::ranges::find(own, operation) != own.end(); };
  if (std::ranges::any_of(one.operations, is_own)) return false;
  auto sources = program_.sources_of(own);
  std::erase_if(sources, is_own);
  return sources.size() > 1;
}

bool FileWiring::is_dropped(std::int32_t operation, const IsSaturated& is_saturated) const {
  std::set<std::int32_t> roles;
  for (const std::int32_t source : program_.sources_of({operation})) roles.insert(program_.role_of(source));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool is_before = std::ranges::any_of(
        placed_[i].operations, [&](std::int32_t each) { return roles.contains(program_.role_of(each)); });
    if (!is_before) continue;
    if (is_saturated(*nodes_[i], operation)) return true;
    for (const std::string_view output : nodes_[i]->outputs) {
      const auto& readers = tensors_.readers(output);
      const bool is_cut = std::ranges::any_of(readers, [&](const OnnxNode* reader) {
        return reader->op_type == "QuantizeLinear" && is_saturated(*reader, operation);
      });
      if (is_cut) return true;
    }
  }
  return false;
}

std::string_view FileWiring::rows_of(const OnnxNode& node) const {
  static const std::set<std::string_view> keeping = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  std::string_view value = node.inputs[1];
  constexpr int longest = 100;  // a chain of movements
  for (int steps = 0; steps < longest; ++steps) {
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr) break;
    const auto to = from_onnx(static_cast<int>(onnx_file::integer_attribute(*maker, "to", 0)));
    const bool keeps =
        keeping.contains(maker->op_type) || (maker->op_type == "Cast" && (to == DType::int32 || to == DType::int64));
    if (!keeps || maker->inputs.empty()) break;
    value = maker->inputs[0];
  }
  return value;
}

std::string FileWiring::other_rows(std::size_t number) const {
  const OnnxNode& node = *nodes_[number];
  const bool is_embedding = (node.op_type == "Gather" || node.op_type == "GatherBlockQuantized") &&
                            node.inputs.size() > 1 && tensors_.find(node.inputs[0]) != no_tensor;
  if (!is_embedding) return "";
  const auto sources = program_.sources_of(placed_[number].own_operations());
  if (std::ranges::none_of(sources, [](std::int32_t source) { return source < 0; })) return "";
  const std::string_view value = rows_of(node);
  const auto input = inputs_.find(value);
  const bool is_read = input != inputs_.end() && sources.contains(Wiring::of_input(input->second));
  return is_read ? "" : "chooses rows by '" + printable(value) + "', the program by one of its inputs";
}

}  // namespace whence::comparison
