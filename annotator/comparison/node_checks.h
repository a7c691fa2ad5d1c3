// NodeChecks: all comparisons of a node with the operations that it stands for, in one order.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "annotator/comparison/attention_fit.h"
#include "annotator/comparison/block_layouts.h"
#include "annotator/comparison/contradictions.h"
#include "annotator/comparison/cuts.h"
#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/integer_meanings.h"
#include "annotator/comparison/mask_fit.h"
#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/operand_order.h"
#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/parts_read.h"
#include "annotator/comparison/placing.h"
#include "annotator/comparison/product_parts.h"
#include "annotator/comparison/recurrent_fit.h"
#include "annotator/comparison/repetitions.h"
#include "annotator/comparison/row_fit.h"
#include "annotator/comparison/saturation.h"
#include "annotator/comparison/trial_run.h"
#include "annotator/comparison/whole_operators.h"
#include "annotator/comparison/wiring.h"
#include "annotator/comparison/written_out.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// A file whose nodes are placed in a program. All must outlive it.
struct PlacedFile {
  const onnx_file::OnnxSummary& model;
  const WrittenOut& written;
  const std::vector<const onnx_file::OnnxNode*>& nodes;
  const std::vector<derivation::ProgramForm>& forms;
  const match::Reference& reference;
  const derivation::FileTensors& tensors;
  derivation::Contents& contents;
  const std::vector<derivation::Derivation>& derivations;
  const OperationForms& operations;
  const Wiring& wiring;
  const Cuts& cuts;
  const Repetitions& repetitions;
  const Placement& placement;
  const FileWiring& wires;
  const Program& program;
  const derivation::Weights& weights;
};

class NodeChecks {
 public:
  explicit NodeChecks(const PlacedFile& file);

  // Returns what a node computes otherwise than its operations; "" if nothing.
  std::string difference(std::size_t node);

  // Some of these comparisons alone, for nodes that only move or choose elements.
  std::string other_operator(std::size_t node);
  std::string other_rows(std::size_t node);
  std::string other_repetition(std::size_t node);
  std::string other_integers_read(std::size_t node) { return meanings_.difference(node_of(node)); }
  std::string other_layout_read(std::size_t node) const { return layouts_.difference(node_of(node)); }

  // Returns true if the integers of a quantiser end where the operation cuts off numbers.
  bool is_saturated(const onnx_file::OnnxNode& quantiser, std::int32_t operation) const;
  // Returns the nodes that only serve masks of attentions which hide what the program's hide.
  std::set<std::size_t> nodes_of_equal_masks();
  // Returns the outputs that hold other results than those of the program.
  std::vector<std::string> other_outputs() { return recurrent_.other_outputs(file_.model.graph); }
  // Returns the values with other numbers than the program's (trial_run.h).
  const std::vector<TrialRun::Difference>& other_numbers() const { return trial_.differences(); }
  // Returns the program, run once; null if it cannot be run.
  TrialProgram* trial_program() const { return trial_.program(); }

 private:
  using Check = std::string (NodeChecks::*)(std::size_t node);
  static const std::vector<Check>& checks();
  std::string other_cut(std::size_t node);
  std::string contradiction(std::size_t node);
  std::string other_attention(std::size_t node);
  std::string other_attribute(std::size_t node);
  std::string other_order(std::size_t node);
  std::string other_parts(std::size_t node);
  std::string other_number(std::size_t node);
  std::string other_integer(std::size_t node);
  std::string result_added_twice(std::size_t node);
  std::string other_source(std::size_t node);
  std::string other_product(std::size_t node);
  std::string one_too_many(std::size_t node);
  std::string part_of_operator(std::size_t node);
  std::string other_layer(std::size_t node);
  // Returns true if integers of the quantiser end where any operation cuts off numbers between these.
  bool may_cut(const onnx_file::OnnxNode& quantiser, double least, double largest) const;

  const onnx_file::OnnxNode& node_of(std::size_t node) const { return *file_.nodes[node]; }
  const std::vector<std::int32_t>& own(std::size_t node) const { return file_.placement.placed[node].operations; }
  bool is_drafted(std::size_t node) const { return file_.written.drafted.contains(node); }

  const PlacedFile& file_;
  AttentionFit attentions_;
  AttentionFit::Operands operands_;
  MaskFit masks_;
  Saturation saturation_;
  IntegerMeanings meanings_;
  BlockLayouts layouts_;
  OperandOrder order_;
  PartsRead parts_;
  Contradictions contradictions_;
  RowFit rows_;
  ProductParts products_;
  Surplus surplus_;
  WholeOperators wholes_;
  RecurrentFit recurrent_;
  std::vector<std::pair<double, double>> bounds_;  // at which operations cut off numbers
  TrialRun trial_;
};

// Returns the version of ONNX's operators that a model states; 0 if it states none.
int opset_of(const onnx_file::OnnxSummary& model);

}  // namespace whence::comparison
