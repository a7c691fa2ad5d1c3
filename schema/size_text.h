// Sizes and conditions on sizes as text: the one reader of sympy's two forms and of Python's.
//
// "Mul(Integer(2), Symbol('s77', positive=True))", "2*s77 + 1", "((3 + L['x'].size()[0]) // 4) == 2 and ...". A tree is
// a Python expression, too: of calls with strings. Who calls it: the reader of archives, and the command's --dynamic.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/size.h"

namespace whence {

// Returns the size that a name stands for: "s77", or "L['x'][0].size()[1]"; nullopt for what is none.
using SizeNames = std::function<std::optional<Size>(const std::string&)>;

// nullopt for what is no expression, or is too deep; unknown for one whose numbers are beyond 64 bits.
std::optional<Size> read_size(std::string_view text, const SizeNames& names);

// Conditions joined by and, of comparisons joined by or. nullopt for what is no condition on sizes.
std::optional<std::vector<Constraint>> read_constraints(std::string_view text, const SizeNames& names);

// nullopt where a size has no number that is known.
std::optional<bool> holds(const Constraint& constraint, const SymbolNumbers& numbers);
// "h//4 == 2 or h > 9"
std::string text_of(const Constraint& constraint, const std::function<std::string(SymbolId)>& name_of);

}  // namespace whence
