#include "annotator/derivation/angle_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

enum class Function : std::uint8_t { cosine, sine };

struct Reader {
  std::string_view op_type, domain;
  std::size_t cosines;  // input; the next one are the sines
};
constexpr std::array<Reader, 3> readers = {
    {{"GroupQueryAttention", "com.microsoft", 7}, {"RotaryEmbedding", "com.microsoft", 2}, {"RotaryEmbedding", "", 1}}};

// Returns how the value is read, perhaps after rows were chosen; nullopt if not as a table of angles, or in both ways.
std::optional<Function> function_of(const FileTensors& tensors, std::string_view value) {
  std::optional<Function> found;
  for (const onnx_file::OnnxNode* node : tensors.readers(value)) {
    const auto slot = static_cast<std::size_t>(std::ranges::find(node->inputs, value) - node->inputs.begin());
    std::optional<Function> here;
    if (node->op_type == "Gather" && slot == 0 && !node->outputs.empty()) {
      here = function_of(tensors, node->outputs[0]);
    } else {
      const auto reader = std::ranges::find_if(
          readers, [&](const Reader& each) { return each.op_type == node->op_type && each.domain == node->domain; });
      if (reader == readers.end()) return std::nullopt;
      if (slot == reader->cosines) here = Function::cosine;
      if (slot == reader->cosines + 1) here = Function::sine;
    }
    if (!here || (found && found != here)) return std::nullopt;
    found = here;
  }
  return found;
}

// Compares all rows, with the rounding of single precision in the angles, which tools share.
bool fits(const program::Elements& table, const program::Elements& frequencies, Function function, double factor,
          double bound) {
  const std::size_t columns = frequencies.size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const float angle = static_cast<float>(i / columns) * static_cast<float>(frequencies.number(i % columns));
    const double wanted = factor * (function == Function::cosine ? std::cos(angle) : std::sin(angle));
    if (!(std::abs(table.number(i) - wanted) <= bound * factor)) return false;
  }
  return true;
}

}  // namespace

bool is_angle_table(const FileTensors& tensors, TensorNumber tensor, const TensorData& data,
                    const ProgramConstants& constants) {
  if (data.shape.size() != 2 || !is_floating(data.dtype)) return false;
  const auto function = function_of(tensors, tensors[tensor].name);
  const auto table = program::Elements::of(data);
  if (!function || !table || table->size() == 0) return false;
  // The first position has the angle 0, whose cosine is the factor. A table of sines has the factor of the cosines.
  std::vector<double> factors = {1};
  for (const TensorData& number : constants.numbers()) {
    const double factor = program::Elements::of(number)->number(0);
    if (factor > 0 && factor != 1) factors.push_back(factor);
  }
  const double bound = rounding_of(data.dtype);
  for (const TensorData& each : constants.of_size(data.shape[1])) {
    const auto frequencies = program::Elements::of(each);
    if (!is_floating(each.dtype) || !frequencies) continue;
    for (const double factor : factors) {
      if (fits(*table, *frequencies, *function, factor, bound)) return true;
    }
  }
  return false;
}

}  // namespace whence::derivation
