// ProgramFacts: queries on a recorded program for lowering, conversion and annotation: whether an axis may be 1 in a
// run, the location of a node. They do not change the program.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::program {

// Returns the entry of `operators` that names the operator `key`, a name of qualified() such as "aten::add.Tensor".
// Tries the overload first ("aten::add.Tensor"; "aten::relu.default" for an overload without a name), then "aten::add",
// which means all overloads. nullptr if there is none.
const std::string* named_in(const std::set<std::string>& operators, const std::string& key);

// Returns true if the axis may be 1 in a run although it is not in the example: its size depends on data or other
// sizes, or has no name.
bool may_become_one(const Program& program, const Dim& dim);

// Returns true if broadcasting an axis to `size`, if known, makes it longer in some run: expand(4) of a data-dependent
// axis of size 4 in the example that may be 1 in another run.
bool may_widen(const Program& program, const Dim& dim, std::optional<std::int64_t> size);

// Returns true if all sizes are certainly equal at run time, axis by axis.
bool same_shape(const Type& a, const Type& b);

// Returns true if a node, also in nested blocks, satisfies `condition`.
bool any_node(const Block& block, const std::function<bool(const Node&)>& condition);

// Returns the location of a node for a diagnostic: module, first source frame, operator.
Place place_of(const Program& program, const Node& node, std::string stage);

}  // namespace whence::program
