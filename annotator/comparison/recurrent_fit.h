// RecurrentFit: what recurrent layers (RNN, GRU, LSTM) read, and what is read of their results. All layers of a
// recurrent operation are one operation of the program, so their places in it are compared here: the results are
// numbered, and the values that only move them are evaluated in the file and in the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/small_values.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class RecurrentFit {
 public:
  // All must outlive this object. `placed` is by node.
  RecurrentFit(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<Placed>& placed,
               const derivation::FileTensors& tensors, const std::vector<derivation::Derivation>& derivations,
               derivation::Contents& contents, const std::vector<derivation::ProgramForm>& forms);

  // Returns what a node reads of recurrent layers, or a layer reads, that the program does not; "" if nothing is known.
  std::string difference(std::size_t node);
  // Returns the outputs of the file that hold other results of recurrent layers than those of the program.
  std::vector<std::string> other_outputs(const onnx_file::OnnxGraph& graph);

 private:
  using Layers = std::map<std::int32_t, std::vector<const graph::GraphNode*>>;  // by operation, in order
  static Layers layers_of(const graph::Graph& graph);
  // Gives the results of equal layers of both sides the same numbers.
  void number_results();
  std::string other_sequence(const onnx_file::OnnxNode& node, const graph::GraphNode& layer);
  std::string other_start(const onnx_file::OnnxNode& node, const graph::GraphNode& layer) const;
  std::string other_rows(const onnx_file::OnnxNode& node) const;
  std::string other_results(std::size_t node);

  // What a state starts from.
  enum class Start : std::uint8_t { unknown, zeros, numbers, input, layer, computed };
  Start start_of(std::string_view value) const;
  Start start_of(graph::GraphValueId value) const;

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const std::vector<Placed>& placed_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  derivation::Contents& contents_;
  std::shared_ptr<const graph::Graph> form_;                                // null: none has as many layers
  std::map<const onnx_file::OnnxNode*, const graph::GraphNode*> layer_of_;  // by node of the file
  std::unique_ptr<FileValues> file_values_;
  std::unique_ptr<ProgramValues> program_values_;
};

}  // namespace whence::comparison
