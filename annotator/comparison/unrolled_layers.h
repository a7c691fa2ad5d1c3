// UnrolledLayers: recurrent layers that an exporter wrote as one part for each step. The steps are compared with the
// recorded operation as a whole: each reads its own step of the input once and the state of the step before it, all
// read the layer's weights, and their results are joined in order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/recorded_layers.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class UnrolledLayers {
 public:
  // All must outlive this object.
  UnrolledLayers(const std::vector<const onnx_file::OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
                 const derivation::FileTensors& tensors, const std::vector<derivation::Derivation>& derivations,
                 derivation::Contents& contents);

  // Returns the nodes that choose and join the steps of an operation: empty unless all of its layers are proved.
  std::set<const onnx_file::OnnxNode*> proved(const RecordedLayers& recorded);

 private:
  using Nodes = std::set<const onnx_file::OnnxNode*>;

  // A matrix product with a weight as PyTorch's linear layers read it.
  struct Product {
    std::string_view data;
    derivation::TensorNumber weight = derivation::no_tensor;
  };
  // The summands of a value.
  struct Sum {
    std::vector<Product> products;
    std::vector<derivation::TensorNumber> biases;
    std::vector<std::string_view> others;
  };
  struct Step {
    std::string_view sequence;  // from which the step is chosen
    std::int64_t number = 0;
  };
  // The results of all steps, joined along the axis of steps.
  struct Layer {
    const onnx_file::OnnxNode* joins = nullptr;
    std::string_view input = {};
    Nodes nodes = {};
  };

  // Returns the value before conversions between dtypes, and before a quantiser whose integers are converted back.
  std::string_view unconverted(std::string_view value, Nodes& nodes) const;
  derivation::TensorNumber constant_before(std::string_view value, bool& transposed) const;
  bool is_weight(derivation::TensorNumber tensor, bool transposed) const;
  std::optional<Product> product_of(const onnx_file::OnnxNode& node, Nodes& nodes) const;
  // Returns the product of rows whose result a node gives back its three sizes, of which the first is `leading`.
  const onnx_file::OnnxNode* reshaped_product(const onnx_file::OnnxNode& node, std::int64_t leading,
                                              Nodes& nodes) const;
  // `leading`: the first size of the value.
  bool add_summands(std::string_view value, std::int64_t leading, Sum& sum, Nodes& nodes, int depth) const;
  std::optional<Step> step_of(std::string_view value, Nodes& nodes) const;
  // Returns the sequence before a reversal along the axis of steps; the value itself if there is none.
  std::string_view unreversed(std::string_view value, bool& reversed, Nodes& nodes) const;
  std::optional<std::vector<std::int64_t>> integers(const onnx_file::OnnxNode& node, std::size_t slot) const;
  bool is_zero_state(std::string_view value) const;
  bool holds(derivation::TensorNumber tensor, std::string_view parameter) const;
  bool hold(std::vector<derivation::TensorNumber> tensors, const std::vector<std::string>& parameters) const;

  std::optional<Layer> layer_of(const onnx_file::OnnxNode& joins, const RecordedLayers& recorded,
                                const RecordedLayer& layer) const;
  // Returns the value that holds the results of all directions of a layer.
  std::string_view joined(const std::vector<Layer>& directions, Nodes& nodes) const;
  // Returns true if only these nodes read the values that they compute, except `results`.
  bool is_closed(const Nodes& nodes, const std::set<std::string_view>& results) const;

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const onnx_file::OnnxGraph& graph_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  derivation::Contents& contents_;
};

}  // namespace whence::comparison
