// FileTensors: the constant tensors of an ONNX file with the nodes that read them, and which of them together are a
// quantised weight.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/derivation/scheme.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/flat_map.h"

namespace whence::derivation {

using TensorNumber = std::int32_t;
inline constexpr TensorNumber no_tensor = -1;

struct Use {
  const onnx_file::OnnxNode* node = nullptr;
  std::size_t slot = 0;
};

struct FileTensor {
  const onnx_file::OnnxTensor* tensor = nullptr;
  std::string_view name;  // of the initializer, or of the result of a Constant node
  std::vector<Use> uses = {};
  bool is_output = false;  // of the graph or of a body
};

// Integers that are a weight, with the scale and zero point of each group.
struct QuantisedWeight {
  TensorNumber integers = no_tensor, scales = no_tensor, zeros = no_tensor;
  std::vector<std::int64_t> dims;  // of the weight; for MatMulNBits [outputs, inputs]
  Groups groups = {};
  int bits = 8;
  bool is_signed = true;
  Layout layout = Layout::plain;
  std::int32_t default_zero = 0;  // without `zeros`
  // Of the tool that writes this operator: its integers may be those of other roundings as well.
  std::optional<Rounding> usual_rounding = {};
};

// A weight in floating point that the file quantises when it runs. `quantised` has no integers.
struct RunTimeWeight {
  TensorNumber numbers = no_tensor;
  QuantisedWeight quantised = {};
};

struct QuantisedBias {
  TensorNumber integers = no_tensor, scale = no_tensor, input_scale = no_tensor, weight_scale = no_tensor;
};

// A convolution or matrix product with its weight and bias, which may have absorbed a norm.
struct Product {
  TensorNumber weight = no_tensor, bias = no_tensor;
  std::int64_t axis = 0;    // of the weight, with the output channels
  std::int64_t groups = 1;  // of a transposed convolution, whose weight has the channels of one group
};

class FileTensors {
 public:
  explicit FileTensors(const onnx_file::OnnxSummary& model);  // must outlive this object

  const std::vector<FileTensor>& all() const { return tensors_; }
  const FileTensor& operator[](TensorNumber number) const { return tensors_[static_cast<std::size_t>(number)]; }
  TensorNumber find(std::string_view name) const;
  // Returns the uses of a tensor by nodes that do more than moving or converting its elements.
  std::vector<Use> final_uses(const FileTensor& tensor) const;
  // Returns the operators that read a tensor, through nodes that only move or convert elements.
  std::set<std::string_view> readers_of(const FileTensor& tensor) const;

  // Returns the node that computes a value; null for initializers and inputs.
  const onnx_file::OnnxNode* producer(std::string_view value) const;
  // Returns the nodes that read a value, a node twice if it reads it twice.
  const std::vector<const onnx_file::OnnxNode*>& readers(std::string_view value) const;

  const std::vector<QuantisedWeight>& quantised() const { return quantised_; }
  const std::vector<RunTimeWeight>& run_time_weights() const { return run_time_weights_; }
  const std::vector<QuantisedBias>& biases() const { return biases_; }
  const std::vector<Product>& products() const { return products_; }
  // Scales and zero points of activations, which a calibration measured.
  const std::vector<TensorNumber>& calibrated() const { return calibrated_; }

 private:
  void add_tensors(const onnx_file::OnnxSummary& model);
  void add_uses(const onnx_file::OnnxGraph& graph);
  void read_node(const onnx_file::OnnxNode& node);
  void add_quantised(const onnx_file::OnnxNode& node);
  void add_run_time(const onnx_file::OnnxNode& node);
  void add_moved(const onnx_file::OnnxNode& node);
  void add_recurrent(TensorNumber integers, TensorNumber scales, TensorNumber zeros);
  void add_dequantised_bias(const onnx_file::OnnxNode& node);
  TensorNumber input(const onnx_file::OnnxNode& node, std::size_t slot) const;
  // Adds integers with one scale that were perhaps moved before they are this value.
  void add_before_movements(std::string_view value, TensorNumber scale, TensorNumber zero);
  std::array<TensorNumber, 2> scales_after(const onnx_file::OnnxNode& node) const;
  // Returns the groups by the number of scales; nullopt if it does not fit the sizes.
  std::optional<Groups> groups_of(const QuantisedWeight& weight, std::int64_t axis, std::int64_t block) const;
  void add_weight(QuantisedWeight weight, std::int64_t axis, std::int64_t block);

  std::vector<FileTensor> tensors_;
  FlatMap<std::string_view, TensorNumber> names_;
  FlatMap<std::string_view, const onnx_file::OnnxNode*> producers_;
  FlatMap<std::string_view, std::vector<const onnx_file::OnnxNode*>> readers_;
  std::vector<QuantisedWeight> quantised_;
  std::vector<RunTimeWeight> run_time_weights_;
  std::vector<QuantisedBias> biases_;
  std::vector<Product> products_;
  std::vector<TensorNumber> calibrated_;
};

}  // namespace whence::derivation
