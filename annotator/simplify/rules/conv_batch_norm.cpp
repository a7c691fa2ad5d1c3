// x -> Conv(W, b) -> BatchNormalization(scale, B, mean, var)      before; also ConvTranspose
// x -> Conv(W * k, (b - mean) * k + B)                            after, with k = scale / sqrt(var + epsilon)
// Condition: weights and statistics are float32 or float64 constants, nothing else reads the convolution's result, and
// all convolutions that share a weight have the same normalization after them. Origins: fused; the node belongs to the
// modules of both. Source: Jacob et al., Quantization and Training of Neural Networks, 2018, section 3.2.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "annotator/simplify/evaluate/numbers.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

// Per output channel: y = x * factor + shift, in double precision.
struct Affine {
  std::vector<double> factor, shift;
};

float epsilon_of(const GraphNode& norm) {
  const graph::Attribute* attribute = norm.find("epsilon");
  return attribute == nullptr ? 1e-5F : std::get<float>(attribute->value);
}

Affine affine(const Rewriter& r, const GraphNode& norm) {
  const double epsilon = static_cast<double>(epsilon_of(norm));
  const std::vector<double> scale = numbers_of<double>(*r.constant(norm.inputs[1]));
  const std::vector<double> offset = numbers_of<double>(*r.constant(norm.inputs[2]));
  const std::vector<double> mean = numbers_of<double>(*r.constant(norm.inputs[3]));
  const std::vector<double> variance = numbers_of<double>(*r.constant(norm.inputs[4]));
  Affine result;
  for (std::size_t i = 0; i < scale.size(); ++i) {
    result.factor.push_back(scale[i] / std::sqrt(variance[i] + epsilon));
    result.shift.push_back(offset[i] - mean[i] * result.factor[i]);
  }
  return result;
}

template <class T>
TensorData scaled_as(const TensorData& weight, const std::vector<double>& factor, bool transposed,
                     std::int64_t groups) {
  // Conv: [out, in / groups, ...]; ConvTranspose: [in, out / groups, ...].
  const std::int64_t first = weight.shape[0], second = weight.shape[1];
  const std::int64_t inner = weight.element_count() / (first * second);
  std::string bytes(weight.bytes.size(), '\0');
  const std::byte* from = weight.bytes.in_memory().value().data();
  for (std::int64_t i = 0; i < first; ++i) {
    for (std::int64_t j = 0; j < second; ++j) {
      const std::int64_t channel = transposed ? i / (first / groups) * second + j : i;
      const std::size_t start = static_cast<std::size_t>((i * second + j) * inner) * sizeof(T);
      for (std::size_t at = start; at < start + static_cast<std::size_t>(inner) * sizeof(T); at += sizeof(T)) {
        T element;
        std::memcpy(&element, from + at, sizeof(T));
        element = static_cast<T>(static_cast<double>(element) * factor[channel]);
        std::memcpy(bytes.data() + at, &element, sizeof(T));
      }
    }
  }
  return {weight.dtype, weight.shape, Bytes::owned(std::move(bytes))};
}

// Large weights are computed only when they are written: all folded weights at once would need as much memory as the
// model.
TensorData scaled(const TensorData& weight, const std::vector<double>& factor, const GraphNode& conv) {
  const bool transposed = conv.op_type == "ConvTranspose";
  const std::int64_t groups = conv.int_attribute("group", 1);
  const auto make = [weight, factor, transposed, groups] {
    return weight.dtype == DType::float64 ? scaled_as<double>(weight, factor, transposed, groups).bytes
                                          : scaled_as<float>(weight, factor, transposed, groups).bytes;
  };
  constexpr std::size_t small = std::size_t{1} << 14U;
  const std::size_t size = weight.bytes.size();
  return {weight.dtype, weight.shape, size <= small ? make() : Bytes::computed_when_written(size, make)};
}

TensorData folded_bias(const TensorData* bias, const Affine& affine, DType dtype) {
  std::vector<double> result = affine.shift;
  if (bias != nullptr) {
    const program::Elements given = program::Elements::of(*bias).value();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += given.number(i) * affine.factor[i];
  }
  return *tensor_of(dtype, {static_cast<std::int64_t>(result.size())}, result);
}

bool is_convolution(const GraphNode& node) { return is(node, "Conv") || is(node, "ConvTranspose"); }

bool has_bias(const GraphNode& conv) { return conv.inputs.size() > 2 && conv.inputs[2] != no_value; }

// Checks the number of channels: a hostile file may have statistics for a different number.
bool matches_channels(const Rewriter& r, const GraphNode& conv, const GraphNode& norm) {
  const TensorData& weight = *r.constant(conv.inputs[1]);
  if (weight.shape.size() < 2 || weight.element_count() == 0) return false;
  const std::int64_t groups = conv.int_attribute("group", 1);
  if (groups <= 0 || weight.shape[0] % groups != 0) return false;
  const std::int64_t channels = conv.op_type == "ConvTranspose" ? weight.shape[1] * groups : weight.shape[0];
  const auto fits = [&](GraphValueId id) { return r.constant(id)->element_count() == channels; };
  return std::all_of(norm.inputs.begin() + 1, norm.inputs.begin() + 5, fits) &&
         (!has_bias(conv) || fits(conv.inputs[2]));
}

// Returns why the pair cannot be folded; empty if it can.
std::string obstacle(const Rewriter& r, const GraphNode& conv, const GraphNode& norm) {
  if (norm.int_attribute("training_mode", 0) != 0) return "the normalization is in training mode";
  if (r.use_count(norm.inputs[0]) != 1) return "the convolution's result is used elsewhere";
  const TensorData* weight = r.constant(conv.inputs[1]);
  if (weight == nullptr || (has_bias(conv) && r.constant(conv.inputs[2]) == nullptr)) {
    return "the convolution's weights are not constant";
  }
  if (weight->dtype != DType::float32 && weight->dtype != DType::float64)
    return "the weights are not float32 or float64";
  for (std::size_t i = 1; i < 5; ++i) {
    if (r.constant(norm.inputs[i]) == nullptr) return "the normalization's statistics are not constant";
  }
  if (!matches_channels(r, conv, norm)) return "the normalization has a different number of channels";
  return "";
}

// Returns the BatchNormalization if it is the only reader of the convolution's result.
const GraphNode* normalization_after(Rewriter& r, const GraphNode& conv) {
  if (r.use_count(conv.outputs[0]) != 1) return nullptr;
  const auto users = r.users(conv.outputs[0]);
  if (users.size() != 1 || !is(r.node(users[0]), "BatchNormalization")) return nullptr;
  return &r.node(users[0]);
}

bool same_statistics(const GraphNode& a, const GraphNode& b) {
  return epsilon_of(a) == epsilon_of(b) &&
         std::equal(a.inputs.begin() + 1, a.inputs.end(), b.inputs.begin() + 1, b.inputs.end());
}

// Returns all convolutions with the same weight; nullopt unless all of them fold in the same way, because otherwise a
// second weight would be needed.
std::optional<std::vector<std::int32_t>> siblings(Rewriter& r, const GraphNode& conv, const GraphNode& norm) {
  const auto users = r.users(conv.inputs[1]);
  for (const std::int32_t user : users) {
    const GraphNode& other = r.node(user);
    if (!is_convolution(other) || other.inputs[1] != conv.inputs[1]) return std::nullopt;
    const bool same_bias = has_bias(other) == has_bias(conv) && (!has_bias(conv) || other.inputs[2] == conv.inputs[2]);
    const GraphNode* other_norm = normalization_after(r, other);
    if (!same_bias || other.op_type != conv.op_type || other_norm == nullptr) return std::nullopt;
    if (other.int_attribute("group", 1) != conv.int_attribute("group", 1)) return std::nullopt;
    if (!same_statistics(*other_norm, norm) || !obstacle(r, other, *other_norm).empty()) return std::nullopt;
  }
  return users;
}

// Returns the name of the folded bias: "layer1.0.conv1.bias" for the weight "layer1.0.conv1.weight".
std::string bias_name(const Rewriter& r, const GraphNode& conv) {
  if (has_bias(conv)) return r.value(conv.inputs[2]).name;
  const std::string& weight = r.value(conv.inputs[1]).name;
  const std::size_t dot = weight.rfind('.');
  return dot == std::string::npos ? "" : weight.substr(0, dot) + ".bias";
}

void fold_into(Rewriter& r, std::int32_t index, GraphValueId weight, GraphValueId bias) {
  const GraphNode conv = r.node(index);
  const GraphNode norm = *normalization_after(r, conv);
  GraphNode folded = conv;
  folded.inputs = {conv.inputs[0], weight, bias};
  folded.origin = joined(conv.origin, norm.origin);
  r.replace_with(norm.outputs[0], std::move(folded));
}

}  // namespace

Outcome conv_batch_norm(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& norm = rewriter.node(index);
  if (!is(norm, "BatchNormalization")) return no_match();
  const GraphNode* conv = rewriter.producer(norm.inputs[0]);
  if (conv == nullptr || !is_convolution(*conv)) return no_match();
  if (std::string why = obstacle(rewriter, *conv, norm); !why.empty()) return refused(std::move(why));
  const auto all = siblings(rewriter, *conv, norm);
  if (!all) return refused("other nodes use the weight, too");

  const Affine k = affine(rewriter, norm);
  const TensorData& weight = *rewriter.constant(conv->inputs[1]);
  const TensorData* bias = has_bias(*conv) ? rewriter.constant(conv->inputs[2]) : nullptr;
  TensorData new_weight = scaled(weight, k.factor, *conv);
  TensorData new_bias = folded_bias(bias, k, weight.dtype);
  const origin::NodeOrigin origin = joined(conv->origin, norm.origin);
  // The folded weights keep the parameters' names, which users recognise; their origin states that they were folded.
  const std::string weight_name = rewriter.value(conv->inputs[1]).name, new_bias_name = bias_name(rewriter, *conv);
  const GraphValueId weight_id = rewriter.constant(std::move(new_weight), origin, weight_name);
  const GraphValueId bias_id = rewriter.constant(std::move(new_bias), origin, new_bias_name);
  for (const std::int32_t sibling : *all) fold_into(rewriter, sibling, weight_id, bias_id);
  return changed();
}

}  // namespace whence::simplify
