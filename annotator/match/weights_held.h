// WeightsHeld: whose parameters the tensors of a file are, where a checkpoint is all that is known of the model.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/structure.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

// The modules whose parameters a tensor holds: all of `parts` when it was put together of several, or one of
// `alternatives` where equal bytes leave it open. One alternative: bytes as many a constant has, and one module has,
// too.
struct Holding {
  std::vector<UnitIndex> parts, alternatives;
  MatchRule rule = MatchRule::none;
};

class WeightsHeld {
 public:
  // All arguments outlive it.
  WeightsHeld(const ForeignStructure& file, const Reference& reference, const TensorSources& tensors);

  const Holding& of(ForeignTensor tensor) const { return holdings_[tensor]; }
  // The tensors that a node reads, through what rearranges or dequantises them; of a norm and of a convolution its own
  // weights alone.
  std::vector<ForeignTensor> read_by(ForeignNode node) const;

  // The tensor has the parameter's elements and dtype, and not its bytes: something was multiplied in.
  bool has_other_numbers(ForeignTensor tensor) const { return other_numbers_[tensor]; }

  // The file holds the parameter by its bytes or by its name.
  bool met(ParameterIndex parameter) const { return met_.contains(parameter); }
  bool is_matrix(ParameterIndex parameter) const;  // more than one axis is longer than 1

  // The tensor is the one parameter of a module, a matrix "weight": an Embedding's, or a Linear's.
  bool is_table(ForeignTensor tensor) const;
  bool is_embedding(UnitIndex unit) const { return picked_.contains(unit); }  // rows of its table are picked

  // The parameters of the module itself; none where it has none.
  UnitIndex unit_of(ScopeIndex scope) const { return unit_of_[scope]; }
  bool has_parameters(ScopeIndex scope) const { return unit_of_[scope].exists(); }
  bool has_modules_inside(ScopeIndex scope) const { return !children_[scope].empty(); }
  // Returns true for a list of modules, which is never called. A Sequential looks the same.
  bool is_container(ScopeIndex scope) const;
  // Parameters that several nodes read alike are of a module that is called so often. True where all that are read in
  // the module, and in those within it, are such: nothing says that two of its nodes ran within one call.
  bool is_called_often(ScopeIndex scope) const { return read_often_[scope] > 0 && read_once_[scope] == 0; }

 private:
  void count_readers();

  const ForeignStructure& f_;
  const Reference& reference_;
  IndexedVector<ForeignTensor, Holding> holdings_;
  IndexedVector<ForeignTensor, bool> other_numbers_;
  std::set<ParameterIndex> met_;
  std::set<UnitIndex> picked_;
  IndexedVector<ScopeIndex, UnitIndex> unit_of_;
  IndexedVector<ScopeIndex, std::vector<ScopeIndex>> children_;
  IndexedVector<ScopeIndex, int> read_once_, read_often_;  // parameters in and below a module
};

bool is_convolution(std::string_view op_type);

}  // namespace whence::match
