// NearestModules: the modules of the nearest nodes before and after each node, among the nodes placed by their weights.
// A node between two calls ran within every call that encloses both.
#pragma once

#include <vector>

#include "annotator/match/placement.h"
#include "annotator/match/tensor_owners.h"

namespace whence::match {

class NearestModules {
 public:
  // In `placement`, only the nodes that read weights are placed yet. Both arguments must outlive this object.
  NearestModules(const Placement& placement, const TensorOwners& owners);

  bool is_known(ForeignNode node) const { return known_[node]; }  // placed by its weights
  const std::vector<ScopeIndex>& before(ForeignNode node) const { return before_[node]; }
  const std::vector<ScopeIndex>& after(ForeignNode node) const { return after_[node]; }

  // Returns the innermost module, called once, that encloses a call of one of `before` and one of `after`.
  ScopeIndex around(const std::vector<ScopeIndex>& before, const std::vector<ScopeIndex>& after) const;
  // Returns the innermost module that encloses the modules before the node and all modules after it: exporters merge
  // sizes that several modules compute.
  ScopeIndex around_all(ForeignNode node) const;

 private:
  void add(std::vector<ScopeIndex>& modules, ForeignNode neighbour,
           const IndexedVector<ForeignNode, std::vector<ScopeIndex>>& further) const;

  const Placement& placement_;
  const origin::CallTree& scopes_;
  const TensorOwners& owners_;
  IndexedVector<ForeignNode, bool> known_;
  IndexedVector<ForeignNode, std::vector<ScopeIndex>> before_, after_;
};

}  // namespace whence::match
