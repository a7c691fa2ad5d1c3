// SameNames: which values and nodes of a foreign file have names that the reference also has. Tools do not rename the
// values that they keep.
#pragma once

#include <cstdint>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/structure.h"

namespace whence::match {

class SameNames {
 public:
  SameNames() = default;  // nothing has a name of the reference
  SameNames(const ForeignStructure& foreign, const Reference& reference);

  // Return the reference's first value, first computed value and first maker with that name; none if there is none. A
  // maker represents units. Several values may have one name in bodies and calls of functions.
  ReferenceValue value(ForeignValue foreign) const { return of(foreign).value; }
  ReferenceValue computed_value(ForeignValue foreign) const { return of(foreign).computed; }
  ReferenceNode maker(ForeignValue foreign) const { return of(foreign).maker; }
  // Returns the reference's first node with that name that represents units; none if there is none.
  ReferenceNode node(ForeignNode foreign) const { return node_of_[foreign]; }
  // Returns true if the foreign file has a value of this name.
  bool is_kept(ReferenceValue value) const { return names_[static_cast<std::size_t>(name_of_[value])].is_kept; }

 private:
  struct Name {
    ReferenceValue value = {}, computed = {};
    ReferenceNode maker = {};
    bool is_kept = false;
  };

  void look_up_values(const ForeignStructure& foreign, const Reference& reference);
  void look_up_nodes(const ForeignStructure& foreign, const Reference& reference);
  const Name& of(ForeignValue foreign) const { return names_[static_cast<std::size_t>(name_of_foreign_[foreign])]; }

  std::vector<Name> names_;  // the first one is for values whose name the reference does not have
  IndexedVector<ForeignValue, std::int32_t> name_of_foreign_;
  IndexedVector<ReferenceValue, std::int32_t> name_of_;
  IndexedVector<ForeignNode, ReferenceNode> node_of_;
};

}  // namespace whence::match
