// TrialRun: a file and its program run once, with the same made-up results of their products. What each product reads,
// and what the outputs hold, must then be equal: between two products, any form of the same computation gives the same
// numbers, and a removed, added or changed node gives others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/placing.h"
#include "annotator/comparison/quantised_operators.h"
#include "annotator/comparison/trial_program.h"
#include "annotator/comparison/wiring.h"
#include "annotator/comparison/written_out.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/weights.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// A file with the operations of its nodes, and what it is compared with. All must outlive this object.
struct TriedFile {
  const onnx_file::OnnxGraph& graph;
  const WrittenOut& written;
  const std::vector<const onnx_file::OnnxNode*>& nodes;
  const derivation::FileTensors& tensors;
  derivation::Contents& contents;
  const std::vector<derivation::Derivation>& derivations;
  const Placement& placement;
  const FileWiring& wires;
  const Wiring& wiring;
  const Program& program;
  const derivation::Weights& weights;
  // Returns true for a quantiser whose integers end where an operation of the program cuts off numbers, if these reach
  // beyond.
  std::function<bool(const onnx_file::OnnxNode& quantiser, double least, double largest)> may_cut;
};

class TrialRun {
 public:
  explicit TrialRun(TriedFile file);

  // A value with other numbers than the program's: the nodes at which they become others, and all nodes between these
  // and the value.
  struct Difference {
    std::set<std::size_t> nodes = {}, between = {};
    std::string remark = {};  // of the nodes
    std::string output = {};  // what is said of an output; "" for what a product reads
  };
  const std::vector<Difference>& differences() const { return differences_; }
  // Returns true if a node works along its attribute `axis` with the numbers of the program: its results lead to equal
  // operands of products and equal outputs alone, and the axis has more than one element. Tools move transposes, so
  // that another axis may be the same one.
  bool confirms_axis(std::size_t node) const;
  // Returns the program's side; null if it cannot be run.
  TrialProgram* program() const { return program_->is_known() ? program_.get() : nullptr; }

 private:
  using Product = TrialProgram::Product;
  using Uncomputed = TrialProgram::Uncomputed;

  // Runs a node, or one in floating point in its place, with the number of the file's node.
  void run(const onnx_file::OnnxNode& node, std::size_t number);
  void run_quantised(const onnx_file::OnnxNode& node, const QuantisedOperator& quantised);
  // Return the name of a value in floating point: the operand itself if the trial run keeps its integers as such.
  std::string_view unquantised_operand(const onnx_file::OnnxNode& node, std::size_t slot, bool is_product);
  std::string_view unquantised_bias(const onnx_file::OnnxNode& node, const QuantisedOperator& quantised);
  std::string_view dequantised(const TensorData* integers, const TensorData* scale, const TensorData* zero);
  void run_product(const onnx_file::OnnxNode& node, ProductKind kind, std::size_t number);
  // Returns the input of a product that is no weight.
  std::size_t operand_slot(const onnx_file::OnnxNode& node, ProductKind kind) const;
  // Returns true for a weight that the file computes, with the numbers that the program computes for it.
  bool reads_computed_weight(const onnx_file::OnnxNode& node, ProductKind kind, std::size_t number);
  bool choose_rows(const onnx_file::OnnxNode& node, std::size_t number);
  std::set<std::int32_t> roles_of(std::size_t number) const;
  // Gives a node the made-up results of the operator that it stands for; returns false if it stands for none.
  bool take_results(const onnx_file::OnnxNode& node, std::size_t number);
  // Returns the operands with other numbers than an operator of the program reads; nullopt if one has another shape.
  std::optional<std::set<std::string_view>> other_operands(const onnx_file::OnnxNode& node, const Uncomputed& made);
  void compute(const onnx_file::OnnxNode& node);
  // Sets a result to a value that a node keeps, as a quantiser does; returns false for other nodes.
  bool keep_value(const onnx_file::OnnxNode& node);

  const TensorData* value(std::string_view name);
  void keep(std::string_view name, TensorData data);
  // Returns the products of the program whose weight a node reads.
  std::vector<const Product*> candidates(const std::vector<std::int32_t>& operations, ProductKind kind,
                                         std::size_t slot) const;
  // Returns that which reads what the node reads; null if it is unknown. Notes a node that reads other numbers.
  const Product* chosen(const std::vector<const Product*>& all, std::string_view operand);
  void add_result(const onnx_file::OnnxNode& node, const Product& product, std::size_t number);
  // Returns true for a product whose result becomes integers.
  bool is_quantised(const onnx_file::OnnxNode& node, std::size_t number) const;
  std::optional<TensorData> packed_sums(const onnx_file::OnnxNode& node, ProductKind kind, std::size_t slot);
  void compare_outputs();
  // Returns true if a value is equal to the program's, or all that nodes compute from it is.
  bool is_confirmed(std::string_view name, int depth) const;
  // Adds a difference for each value with other numbers.
  void explain();
  Difference explained(std::string_view name, const std::function<bool(std::string_view)>& agrees) const;

  TriedFile file_;
  std::unique_ptr<TrialProgram> program_;
  std::map<const onnx_file::OnnxNode*, std::size_t> numbers_;
  std::set<std::pair<std::string, std::int32_t>> operators_;  // of nodes, with the roles of their operations
  std::map<std::string_view, std::optional<TensorData>> values_;
  std::set<std::string_view> computed_;      // from inputs or made-up results
  std::set<std::string_view> unrounded_;     // quantised constants, kept as the numbers that they stand for
  std::deque<std::string> names_;            // of values that are not in the file
  std::map<std::string_view, bool> others_;  // values with other numbers; true: outputs
  std::set<std::string_view> equal_;         // operands of products, and outputs, with the program's numbers
  std::vector<Difference> differences_;
  double tolerance_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace whence::comparison
