#include "annotator/comparison/mask_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "annotator/comparison/causal_masks.h"
#include "annotator/comparison/small_values.h"
#include "annotator/comparison/token_calls.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::FileTensors;

namespace {

constexpr std::array<Padding, 3> paddings = {Padding::none, Padding::left, Padding::right};

// A mask by batch, head, row and column, some of which have size 1 for all.
class Mask {
 public:
  static std::optional<Mask> of(const TensorData& data) {
    constexpr std::size_t rank = 4;
    auto elements = program::Elements::of(data);
    if (!elements || data.shape.size() > rank) return std::nullopt;
    Mask mask(data, *elements);
    mask.shape_.insert(mask.shape_.begin(), rank - data.shape.size(), 1);
    return mask;
  }
  bool fits(const std::array<std::int64_t, 4>& sizes) const {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (shape_[axis] != 1 && shape_[axis] != sizes[axis] && axis != 1) return false;
    }
    return true;
  }
  std::int64_t heads() const { return shape_[1]; }
  bool sees(const std::array<std::int64_t, 4>& at) const {
    const double number = elements_.number(offset(at));
    constexpr double hidden = -1e4;
    return is_floating(data_.dtype) ? number > hidden : number != 0;
  }
  double addend(const std::array<std::int64_t, 4>& at) const {
    return is_floating(data_.dtype) ? elements_.number(offset(at)) : 0;
  }

 private:
  Mask(const TensorData& data, const program::Elements& elements)
      : data_(data), elements_(elements), shape_(data.shape) {}
  std::size_t offset(const std::array<std::int64_t, 4>& at) const {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      offset = offset * shape_[axis] + std::min(at[axis], shape_[axis] - 1);
    return static_cast<std::size_t>(offset);
  }

  TensorData data_;
  program::Elements elements_;
  std::vector<std::int64_t> shape_;
};

struct Comparison {
  const TokenCall& call;
  const FileMask& file_rule;
  const ProgramMask& program_rule;
  const std::optional<Mask>& file;
  const std::optional<Mask>& program;

  // `row` counts from the first position that is not cached.
  bool file_sees(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) const {
    const std::int64_t position = call.cached + row;
    if (file_rule.is_causal && column > position) return false;
    if (file_rule.window >= 0 && column <= position - file_rule.window) return false;
    if (!file) return true;
    return file_rule.is_padding ? file->sees({0, 0, batch, column}) : file->sees({batch, head, row, column});
  }
  bool program_sees(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) const {
    const std::int64_t position = call.cached + row;
    if (program_rule.is_causal && column > position) return false;
    return !program || program->sees({batch, head, position, column});
  }
  bool adds_other_number(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) const {
    const double theirs = file && !file_rule.is_padding ? file->addend({batch, head, row, column}) : 0;
    const double ours = program ? program->addend({batch, head, call.cached + row, column}) : 0;
    constexpr double rounding = 1e-5;
    return !(std::abs(theirs - ours) <= rounding * std::max(1.0, std::abs(ours)));
  }

  // Compares a row. Those of padding mean nothing, nor do those in which the program sees nothing.
  std::string of_row(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    const std::int64_t position = call.cached + row;
    if (call.is_padding(batch, position)) return "";
    bool sees_any = false;
    for (std::int64_t column = 0; column < call.positions; ++column)
      sees_any = sees_any || program_sees(batch, head, row, column);
    if (!sees_any) return "";
    for (std::int64_t column = 0; column < call.positions; ++column) {
      const bool ours = program_sees(batch, head, row, column), theirs = file_sees(batch, head, row, column);
      const std::string at = "position " + std::to_string(position);
      const std::string other = (call.is_padding(batch, column) ? "the padding at " : "") + std::to_string(column);
      if (theirs && !ours) return at + " sees " + other + ", unlike in the program";
      if (ours && !theirs) return at + " does not see " + other + ", unlike in the program";
      if (ours && adds_other_number(batch, head, row, column))
        return "the mask adds other numbers than in the program, first at " + at;
    }
    return "";
  }
};

}  // namespace

std::optional<std::string> MaskFit::difference(const FileMask& mask, const std::vector<ProgramMask>& forms) {
  for (const ProgramMask& form : forms) {
    const Key key = {mask, {form.graph, {form.mask, form.is_causal}}};
    auto found = results_.find(key);
    if (found == results_.end()) found = results_.emplace(key, compare(mask, form)).first;
    if (found->second) return found->second;
  }
  return std::nullopt;
}

std::optional<std::string> MaskFit::compare(const FileMask& mask, const ProgramMask& form) {
  auto call = call_of(*form.graph);
  if (!call) return std::nullopt;
  const bool reads_padding = form.mask != graph::no_value && depends_on_input(*form.graph, form.mask);
  for (const std::int64_t cached : {std::int64_t{0}, call->positions / 2}) {
    if (cached > 0 && written_.caches.empty()) continue;
    for (const Padding padding : paddings) {
      if (padding != Padding::none && !reads_padding) continue;
      // An operator that counts tokens is for padding at the end.
      if (padding == Padding::left && mask.is_padding) continue;
      call->cached = cached, call->padding = padding;
      FileValues file(tensors_, contents_, file_inputs(graph_, written_, *call));
      ProgramValues program(*form.graph, program_inputs(*form.graph, *call));
      const auto read = [](const TensorData* data) { return data == nullptr ? std::nullopt : Mask::of(*data); };
      const auto theirs = mask.value.empty() ? std::nullopt : read(file.of(mask.value));
      const auto ours = form.mask == graph::no_value ? std::nullopt : read(program.of(form.mask));
      if ((!mask.value.empty() && !theirs) || (form.mask != graph::no_value && !ours)) return std::nullopt;
      const std::int64_t heads = std::max(theirs ? theirs->heads() : 1, ours ? ours->heads() : 1);
      const std::int64_t rows = call->positions - cached;
      if (theirs && !mask.is_padding && !theirs->fits({call->batch, heads, rows, call->positions})) return std::nullopt;
      if (theirs && mask.is_padding && !theirs->fits({1, 1, call->batch, call->positions})) return std::nullopt;
      if (ours && !ours->fits({call->batch, heads, call->positions, call->positions})) return std::nullopt;
      const Comparison comparison{*call, mask, form, theirs, ours};
      for (std::int64_t batch = 0; batch < call->batch; ++batch) {
        for (std::int64_t head = 0; head < heads; ++head) {
          for (std::int64_t row = 0; row < rows; ++row) {
            if (std::string found = comparison.of_row(batch, head, row); !found.empty()) return found;
          }
        }
      }
    }
  }
  return "";
}

std::set<std::size_t> nodes_of_masks(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                     const std::set<const onnx_file::OnnxNode*>& attentions,
                                     const onnx_file::OnnxGraph& graph, const FileTensors& tensors) {
  std::set<const onnx_file::OnnxNode*> found;
  std::set<std::size_t> numbers;
  const auto serves_masks = [&](std::string_view value) {
    const auto is_output = [&](const onnx_file::OnnxValue& output) { return output.name == value; };
    if (std::ranges::any_of(graph.outputs, is_output)) return false;
    return std::ranges::all_of(tensors.readers(value), [&](const onnx_file::OnnxNode* reader) {
      const bool is_mask = attentions.contains(reader) && std::ranges::count(reader->inputs, value) == 1 &&
                           reader->inputs[attention_mask_slot] == value;
      return is_mask || found.contains(reader);
    });
  };
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const auto& outputs = nodes[i]->outputs;
    const bool is_read = std::ranges::any_of(outputs, [&](auto output) { return !tensors.readers(output).empty(); });
    if (!is_read || !nodes[i]->subgraphs.empty() || !std::ranges::all_of(outputs, serves_masks)) continue;
    found.insert(nodes[i]);
    numbers.insert(i);
  }
  return numbers;
}

}  // namespace whence::comparison
