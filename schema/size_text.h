// Parses sizes and conditions on sizes in sympy's two notations and in Python's.
//
// Examples: "Mul(Integer(2), Symbol('s77', positive=True))", "2*s77 + 1", "((3 + L['x'].size()[0]) // 4) == 2 and ...".
// Used by the reader of archives and for --dynamic.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/size.h"

namespace whence {

// Returns the size for a name such as "s77" or "L['x'][0].size()[1]"; nullopt for an unknown name.
using SizeNames = std::function<std::optional<Size>(const std::string&)>;

// Returns nullopt if the text is not an expression or is nested too deeply; an unknown size if numbers exceed 64 bits.
std::optional<Size> read_size(std::string_view text, const SizeNames& names);

// Returns constraints that must all hold, each an alternative of comparisons. nullopt if the text is not a condition.
std::optional<std::vector<Constraint>> read_constraints(std::string_view text, const SizeNames& names);

// Returns nullopt if the result depends on a size without a known value.
std::optional<bool> holds(const Constraint& constraint, const SymbolNumbers& numbers);
// Returns text such as "h//4 == 2 or h > 9".
std::string text_of(const Constraint& constraint, const std::function<std::string(SymbolId)>& name_of);

}  // namespace whence
