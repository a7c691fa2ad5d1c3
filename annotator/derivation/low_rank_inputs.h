// LowRankInputs: the products of a LoRA adapter as nodes beside the products of a file. Their factors and their scaling
// are inputs of the model with the adapter's numbers as defaults, so that the file runs without them and another
// adapter needs no new file.
//
// Source: optional inputs with defaults are initializers with the name of an input (ONNX IR, "Graphs"), as ONNX
// Runtime's LoraAdapter expects them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/low_rank.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/text/unique_names.h"

namespace whence::derivation {

class LowRankInputs : public onnx_file::NodeEditor {
 public:
  LowRankInputs(const onnx_file::OnnxSummary& model, const FileTensors& tensors);  // must outlive this object

  // Adds the products of a module's weight, which is complete in `tensor`: scale * (x A) B to each product x W.
  // `module`: the qualified name. Returns why it cannot; "" if it can.
  std::string add(const LowRank& product, const std::string& module, TensorNumber tensor);

  onnx_file::NodeEdit edit(const onnx_file::NodeView& node) override;
  const std::string& graph_fields() const { return graph_fields_; }
  std::int64_t count() const { return count_; }  // products beside which nodes stand

 private:
  // A matrix product with a weight.
  struct Site {
    const onnx_file::OnnxNode* node = nullptr;  // whose result is the product in floating point
    std::string_view input;                     // x, in floating point
  };
  struct Names {
    std::string a, b, scaling;
  };

  std::string find_sites(TensorNumber tensor, std::vector<Site>& sites) const;
  std::string add_site(const onnx_file::OnnxNode& reader, std::size_t slot, std::vector<Site>& sites) const;
  void add_input(const std::string& name, const TensorData& data, bool is_scalar);
  void add_nodes(const Site& site, const std::string& module, const Names& names);

  const onnx_file::OnnxSummary& model_;
  const FileTensors& tensors_;
  text::UniqueNames values_, nodes_;
  std::map<std::string, DType> inputs_;                 // added
  std::map<std::uint64_t, onnx_file::NodeEdit> edits_;  // by position of the node's message in the file
  std::string graph_fields_;
  std::int64_t count_ = 0;
};

}  // namespace whence::derivation
