// Classification: decides for a Structure the kind of each node, which values differ only in layout or precision, which
// are constant, and which heavy nodes compute and read each value. Structure::finish() runs it once.
#pragma once

#include "annotator/match/structure.h"
#include "schema/disjoint_sets.h"

namespace whence::match {

template <Side S>
class Classification {
 public:
  // The nodes of `structure` are in topological order.
  explicit Classification(Structure<S>& structure) : s_(structure) {}

  void run();

 private:
  using Node = NodeIndex<S>;
  using Value = ValueIndex<S>;
  using Tensor = TensorIndex<S>;

  void mark_tensors();
  bool is_constant(const StructureNode<S>& node) const;
  void mark_constant_results(const StructureNode<S>& node);
  void classify_computing(Node index);
  void record_results(Node index, Value data);
  void store_loose_values();
  void index_uses();

  Value first_computed_input(const StructureNode<S>& node) const;
  bool rearranges(const StructureNode<S>& node) const;
  bool slices_all(const StructureNode<S>& node) const;
  bool adds_bias(const StructureNode<S>& node);
  bool is_product_result(Value value);
  bool gates_itself(const StructureNode<S>& node);
  bool scales_integer_product(const StructureNode<S>& node);
  bool computes_sizes(const StructureNode<S>& node) const;
  bool computes_per_channel(const StructureNode<S>& node) const;

  void unite(Value a, Value b);
  Value find_loose(Value value);

  Structure<S>& s_;
  DisjointSets loose_;  // values by number
};

}  // namespace whence::match
