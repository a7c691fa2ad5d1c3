// Sizes and strides of an archive's tensors, for any dynamic sizes: the places of elements in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/pt2/part.h"
#include "schema/program.h"
#include "schema/size_text.h"

namespace whence::pt2 {

struct Strided {
  std::vector<Size> sizes, strides;    // by axis
  std::optional<std::int64_t> offset;  // in elements; nullopt where it depends on a dynamic size
};

// As the archive says it of the tensor that an operand {"as_tensor": {"name": ...}} names, in graph["tensor_values"].
// nullopt if it says nothing of use.
std::optional<Strided> strided(const Part& graph, const std::optional<Part>& operand, const SizeNames& names);

// True if the elements lie row after row without gaps, whatever the dynamic sizes are.
bool in_rows(const Strided& tensor);

// True if the result of `reshape` shares its argument's memory; nullopt where that depends on dynamic sizes.
std::optional<bool> shares_memory(const Node& reshape, const Strided& argument, const Strided& result);

// Offset and strides as memory_argument has them; nullopt where they depend on dynamic sizes.
std::optional<ArgumentList> as_memory_argument(const Strided& tensor);

}  // namespace whence::pt2
