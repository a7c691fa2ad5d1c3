// Placing: which recorded operations the nodes of a file stand for. Starts from the match, which is less strict, and
// asks the wiring, the parameters and the forms of the program where its answer does not fit.
#pragma once

#include <cstdint>
#include <vector>

#include "annotator/comparison/cuts.h"
#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/node_verdicts.h"
#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/repetitions.h"
#include "annotator/comparison/wiring.h"
#include "annotator/comparison/written_out.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

struct Placement {
  std::vector<Placed> placed = {};  // by node
  PackedProducts packed = {};
};

class Placing {
 public:
  // All must outlive this object.
  Placing(const std::vector<const onnx_file::OnnxNode*>& nodes, const match::Reference& reference,
          const derivation::FileTensors& tensors, const std::vector<derivation::Derivation>& derivations,
          const OperationForms& operations, const Wiring& wiring, const Cuts& cuts, const Repetitions& repetitions)
      : nodes_(nodes),
        reference_(reference),
        tensors_(tensors),
        derivations_(derivations),
        operations_(operations),
        wiring_(wiring),
        cuts_(cuts),
        repetitions_(repetitions) {}

  // `sizes`: the verdicts of Sizes, by node. Changes the units of packed products in the report.
  Placement run(match::MatchReport& report, const std::vector<NodeVerdict>& sizes, const onnx_file::OnnxGraph& graph,
                const WrittenOut& written);

 private:
  std::vector<Placed>& placed() { return placement_.placed; }
  bool fits(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;
  void take_matches(match::MatchReport& report, const std::vector<NodeVerdict>& sizes, const WrittenOut& written);
  void place_packed(const onnx_file::OnnxNode& node, match::NodeMatch& match);
  // Places the sum with a bias that stands in the place of a fused operator at the operations that read the bias.
  void place_sum(const onnx_file::OnnxNode& node, match::NodeMatch& match) const;
  // The match gives a node also the operations before it that the node seems to leave out. One for which another node
  // stands is not left out.
  void find_own_operations();
  void ask_wiring(const std::vector<NodeVerdict>& sizes, const onnx_file::OnnxGraph& graph, const WrittenOut& written);
  // Places a choice of rows or a product at the operations that read its parameter.
  void place_by_parameter(std::size_t node, NodeVerdict size_verdict);
  bool reads_another_table(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;
  // Places a product at the operations that read its weight. The match may name others of equal layers beside them, or
  // instead.
  void place_by_weight(std::size_t node);
  // Adds the operations that were folded into the weight and the bias of a product: those that multiply by a factor for
  // each channel, or add such numbers.
  void add_folded(std::size_t node);
  bool adds_parameter(std::int32_t operation, std::string_view value) const;
  // Adds the operation that an operator of ONNX Runtime computes by its attribute `activation`.
  void add_fused_activation(std::size_t node);
  // Adds the product or quotient by a number that ONNX Runtime's MatMul computes by its attribute `alpha`.
  void add_fused_factor(std::size_t node);

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const match::Reference& reference_;
  const derivation::FileTensors& tensors_;
  const std::vector<derivation::Derivation>& derivations_;
  const OperationForms& operations_;
  const Wiring& wiring_;
  const Cuts& cuts_;
  const Repetitions& repetitions_;
  Placement placement_;
};

}  // namespace whence::comparison
