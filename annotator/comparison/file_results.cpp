#include "annotator/comparison/file_results.h"

#include <algorithm>
#include <utility>

#include "annotator/comparison/operator_results.h"
#include "annotator/comparison/small_values.h"
#include "annotator/comparison/trial_program.h"
#include "annotator/derivation/operator_classes.h"
#include "schema/element_count.h"

namespace whence::comparison {

using derivation::FileTensors;
using derivation::is_movement;
using derivation::no_tensor;

using onnx_file::OnnxNode;

namespace {

constexpr double single = 4 * 1.1920929e-7, half = 2e-3;  // roundings, relative to the largest number

}  // namespace

FileResults::FileResults(const std::vector<const OnnxNode*>& nodes, const FileTensors& tensors,
                         derivation::Contents& contents)
    : tensors_(tensors), contents_(contents) {
  for (const OnnxNode* node : nodes) {
    const bool is_alone = std::ranges::all_of(node->inputs, [&](std::string_view input) {
      return input.empty() || computed_.contains(input) || tensors_.find(input) != no_tensor;
    });
    if (!is_alone || node->inputs.empty() || !node->subgraphs.empty()) continue;
    alone_.push_back(node);
    computed_.insert(node->outputs.begin(), node->outputs.end());
  }
}

std::set<const OnnxNode*> FileResults::proved(const ReadInProgram& read_in_program) {
  std::set<const OnnxNode*> found, refused;
  for (const Result& result : results()) {
    const TensorData* const data = value(result.name);
    if (data != nullptr && !is_floating(data->dtype)) continue;  // a size
    (data != nullptr && is_in_program(result, read_in_program) ? found : refused).merge(before(result.name));
  }
  for (const OnnxNode* node : refused) found.erase(node);
  return found;
}

std::vector<FileResults::Result> FileResults::results() const {
  std::vector<Result> results;
  for (const OnnxNode* node : alone_) {
    for (const std::string_view output : node->outputs) {
      const auto& readers = tensors_.readers(output);
      const auto is_alone = [&](const OnnxNode* reader) {
        return !reader->outputs.empty() && computed_.contains(reader->outputs[0]);
      };
      if (output.empty() || std::ranges::all_of(readers, is_alone)) continue;
      Result result{output, {}};
      add_readers(output, result.readers, 0);
      results.push_back(std::move(result));
    }
  }
  return results;
}

void FileResults::add_readers(std::string_view value, std::vector<const OnnxNode*>& readers, int depth) const {
  constexpr int longest = 16;  // a chain of movements
  for (const OnnxNode* reader : tensors_.readers(value)) {
    if (is_movement(reader->op_type) && depth < longest) {
      add_readers(reader->outputs[0], readers, depth + 1);
    } else {
      readers.push_back(reader);
    }
  }
}

bool FileResults::is_in_program(const Result& result, const ReadInProgram& read_in_program) {
  const TensorData own = in_single(*value(result.name));
  const auto makers = before(result.name);
  const bool is_half = std::ranges::any_of(makers, [&](const OnnxNode* node) {
    return std::ranges::any_of(node->inputs, [&](std::string_view input) {
      const auto number = tensors_.find(input);
      const DType dtype = number == no_tensor ? DType::undefined : from_onnx(tensors_[number].tensor->data_type);
      return dtype == DType::float16 || dtype == DType::bfloat16;
    });
  });
  return !result.readers.empty() && std::ranges::all_of(result.readers, [&](const OnnxNode* reader) {
    return std::ranges::any_of(read_in_program(*reader), [&](const TensorData* theirs) {
      return theirs->element_count() == own.element_count() && are_near(own, *theirs, is_half ? half : single);
    });
  });
}

const TensorData* FileResults::value(std::string_view name) {
  const auto [place, is_new] = values_.try_emplace(name);
  const auto known = [&] { return values_[name] ? &*values_[name] : nullptr; };
  if (!is_new) return known();
  if (const auto number = tensors_.find(name); number != no_tensor) {
    if (element_count(tensors_[number].tensor->dims) <= most_tried_elements)
      place->second = contents_.data(tensors_[number]);
    return known();
  }
  const OnnxNode* const maker = computed_.contains(name) ? tensors_.producer(name) : nullptr;
  if (maker == nullptr) return nullptr;
  simplify::Constants inputs;
  for (const std::string_view input : maker->inputs) {
    inputs.push_back(input.empty() ? nullptr : value(input));
    if (!input.empty() && inputs.back() == nullptr) return nullptr;
  }
  auto results = results_of(graph_node_of(*maker, contents_), inputs);
  for (std::size_t i = 0; results && i < results->size() && i < maker->outputs.size(); ++i)
    values_[maker->outputs[i]] = std::move((*results)[i]);
  return known();
}

std::set<const OnnxNode*> FileResults::before(std::string_view value) const {
  std::set<const OnnxNode*> found;
  std::vector<std::string_view> open = {value};
  while (!open.empty()) {
    const OnnxNode* const maker = computed_.contains(open.back()) ? tensors_.producer(open.back()) : nullptr;
    open.pop_back();
    if (maker != nullptr && found.insert(maker).second)
      open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
  }
  return found;
}

}  // namespace whence::comparison
