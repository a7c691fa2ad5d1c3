// Sizes and strides of an archive's tensors, for any dynamic sizes: the places of elements in memory.
#pragma once

#include <optional>

#include "annotator/pt2/part.h"
#include "schema/flat_map.h"
#include "schema/place.h"
#include "schema/size_text.h"

namespace whence::pt2 {

// The place that graph["tensor_values"][name] says, in memory that it does not name; nullopt if it says nothing of use.
std::optional<MemoryPlace> place_in(const Part& meta, const SizeNames& names);

// The witness of places: an archive says of every tensor where it lies.
class ArchivePlaces {
 public:
  explicit ArchivePlaces(const Program& program) : program_(program) {}

  void note(ValueId id, std::optional<MemoryPlace> place);
  std::optional<MemoryPlace> operator()(ValueId id, const std::optional<MemoryPlace>& derived) const;

 private:
  const Program& program_;
  FlatMap<ValueId, std::optional<MemoryPlace>> others_;  // than in rows
};

}  // namespace whence::pt2
