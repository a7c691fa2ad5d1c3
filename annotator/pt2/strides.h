// Sizes and strides of an archive's tensors, for all dynamic sizes: the memory layout of their elements.
#pragma once

#include <optional>

#include "annotator/pt2/part.h"
#include "schema/flat_map.h"
#include "schema/place.h"
#include "schema/size_text.h"

namespace whence::pt2 {

// Returns the layout that graph["tensor_values"][name] states, without naming the memory; nullopt if it is unusable.
std::optional<MemoryPlace> place_in(const Part& meta, const SizeNames& names);

// The layouts that the archive states for its tensors, to check derived places.
class ArchivePlaces {
 public:
  explicit ArchivePlaces(const Program& program) : program_(program) {}

  void note(ValueId id, std::optional<MemoryPlace> place);
  std::optional<MemoryPlace> operator()(ValueId id, const std::optional<MemoryPlace>& derived) const;

 private:
  const Program& program_;
  FlatMap<ValueId, std::optional<MemoryPlace>> stated_;  // layouts other than row-major
};

}  // namespace whence::pt2
