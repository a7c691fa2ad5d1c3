// Sizes that follow from others, as text: "Mul(Integer(2), Symbol('s77', positive=True))" -> "2*s77".
//
// The archive holds them as sympy writes its trees; its range constraints and PyTorch's exporter call them by the text.
// Equal trees are equal sizes, for sympy brings them into one form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace whence::pt2 {

// nullopt for what is no such tree.
std::optional<std::string> size_expression(std::string_view tree);

// The expression with the symbol `from` called `to`: ("2*s77", "s77", "batch") -> "2*batch".
std::string renamed(const std::string& expression, std::string_view from, std::string_view to);

}  // namespace whence::pt2
