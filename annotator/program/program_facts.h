// ProgramFacts: questions about a recorded program that lowering, conversion and annotation all ask: whether an axis
// may be 1 long in a run, where a node stands. Nothing is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::program {

// The entry of `operators` that names the operator `key`, "aten::add.Tensor" as qualified() has it; the narrowest
// first: "aten::add.Tensor" ("aten::relu.default" of an overload without a name), then "aten::add", which is all of its
// overloads. nullptr where none does.
const std::string* named_in(const std::set<std::string>& operators, const std::string& key);

// True if the axis may be 1 long in a run although it is not in the example: data or other sizes decide its size, or it
// was left unnamed.
bool may_become_one(const Program& program, const Dim& dim);

// True if broadcasting an axis to `size`, where that is known, makes it longer in some run: expand(4) of an axis that
// data made 4 long in the example and may make 1.
bool may_widen(const Program& program, const Dim& dim, std::optional<std::int64_t> size);

// Both sizes are certain to be equal at run time, axis by axis.
bool same_shape(const Type& a, const Type& b);

// Some node, in nested blocks too, fulfils `condition`.
bool any_node(const Block& block, const std::function<bool(const Node&)>& condition);

// The place of a node in a diagnostic: module, first source frame, operator.
Place place_of(const Program& program, const Node& node, std::string stage);

}  // namespace whence::program
