// TensorOwners: the modules that own the tensors of a file, when the model is known only from a checkpoint.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/match/structure.h"
#include "annotator/match/tensor_sources.h"

namespace whence::match {

// The modules that own a tensor's parameters: all of `parts`, several for concatenated parameters; or one of
// `alternatives`, if several modules have equal bytes. A single alternative means that many other constants have the
// same bytes.
struct TensorOwner {
  std::vector<UnitIndex> parts, alternatives;
  MatchRule rule = MatchRule::none;
};

class TensorOwners {
 public:
  // All arguments must outlive this object.
  TensorOwners(const ForeignStructure& file, const Reference& reference, const TensorSources& tensors);

  const TensorOwner& of(ForeignTensor tensor) const { return owners_[tensor]; }
  // Returns the tensors that a node reads, through nodes that rearrange or dequantise them. For a norm or a
  // convolution, returns only its own weights.
  std::vector<ForeignTensor> read_by(ForeignNode node) const;

  // Returns true if the tensor matches the parameter's sketch and dtype, but not its bytes: a scale was multiplied in.
  bool has_changed_elements(ForeignTensor tensor) const { return changed_elements_[tensor]; }

  // Returns true if the file has the parameter's bytes or its name.
  bool is_in_file(ParameterIndex parameter) const { return in_file_.contains(parameter); }
  bool is_matrix(ParameterIndex parameter) const;  // more than one axis is longer than 1

  // Returns true if the tensor is the only parameter of a module and a matrix "weight", as in an Embedding or a Linear.
  bool is_table(ForeignTensor tensor) const;
  bool is_embedding(UnitIndex unit) const { return gathered_.contains(unit); }  // a Gather reads its table

  // Returns the unit of the module's own parameters; none if it has none.
  UnitIndex unit_of(ScopeIndex scope) const { return unit_of_[scope]; }
  bool has_parameters(ScopeIndex scope) const { return unit_of_[scope].exists(); }
  bool has_modules_inside(ScopeIndex scope) const { return !children_[scope].empty(); }
  // Returns true for a list of modules, which is never called. A Sequential looks the same.
  bool is_container(ScopeIndex scope) const;
  // Returns true if each parameter that the file reads, of the module or a submodule, is read by several nodes with the
  // same operator. Then the module is called several times, and two of its nodes may belong to different calls.
  bool is_called_often(ScopeIndex scope) const { return read_often_[scope] > 0 && read_once_[scope] == 0; }

 private:
  void count_readers();

  const ForeignStructure& f_;
  const Reference& reference_;
  IndexedVector<ForeignTensor, TensorOwner> owners_;
  IndexedVector<ForeignTensor, bool> changed_elements_;
  std::set<ParameterIndex> in_file_;
  std::set<UnitIndex> gathered_;
  IndexedVector<ScopeIndex, UnitIndex> unit_of_;
  IndexedVector<ScopeIndex, std::vector<ScopeIndex>> children_;
  IndexedVector<ScopeIndex, int> read_once_, read_often_;  // parameters in and below a module
};

bool is_convolution(std::string_view op_type);

}  // namespace whence::match
