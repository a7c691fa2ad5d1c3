// einsum: PyTorch's notation equals ONNX's except for spaces and the path argument.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

// A parsed equation such as "ab, bc -> ac". `output` is empty if it is implicit.
struct Equation {
  std::vector<std::string> operands;
  std::string output;
  bool explicit_output = false;
};

Equation parse(const std::string& text) {
  Equation equation;
  equation.operands.emplace_back();
  std::string* part = &equation.operands.back();
  for (const char letter : text) {
    if (letter == ' ' || letter == '-') continue;
    if (letter == ',') {
      equation.operands.emplace_back();
      part = &equation.operands.back();
    } else if (letter == '>') {
      equation.explicit_output = true;
      part = &equation.output;
    } else {
      part->push_back(letter);
    }
  }
  return equation;
}

std::string to_text(const Equation& equation) {
  std::string text = equation.operands.front();
  for (std::size_t i = 1; i < equation.operands.size(); ++i) text += "," + equation.operands[i];
  return equation.explicit_output ? text + "->" + equation.output : text;
}

// Returns true for a form like "bij,bjk->bik": equal batch letters first, one row, one contracted and one column
// letter.
bool is_matmul(const Equation& equation) {
  if (equation.operands.size() != 2 || !equation.explicit_output) return false;
  const std::string &a = equation.operands[0], &b = equation.operands[1], &y = equation.output;
  const std::size_t rank = a.size();
  if (rank < 2 || b.size() != rank || y.size() != rank || to_text(equation).find('.') != std::string::npos)
    return false;
  const std::string batch = a.substr(0, rank - 2);
  const std::string letters = batch + a[rank - 2] + a[rank - 1] + b[rank - 1];
  for (const char letter : letters) {
    if (std::count(letters.begin(), letters.end(), letter) != 1) return false;
  }
  return b == batch + a[rank - 1] + b[rank - 1] && y == batch + a[rank - 2] + b[rank - 1];
}

// Axes of an ellipsis that is missing in the output are summed, like letters that are missing there. ONNX supports this
// only for letters, so these axes get letters.
void name_dropped_axes(Ctx& c, Equation& equation, const std::vector<Val>& operands) {
  constexpr std::string_view dots = "...";
  const bool is_dropped = equation.explicit_output && equation.output.find(dots) == std::string::npos;
  if (!is_dropped || to_text(equation).find(dots) == std::string::npos) return;
  std::string unused;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    for (const char each : {letter, static_cast<char>(letter - 'a' + 'A')}) {
      if (to_text(equation).find(each) == std::string::npos) unused += each;
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t at = equation.operands[i].find(dots);
    if (at == std::string::npos) continue;
    const std::size_t axes =
        static_cast<std::size_t>(c.rank(operands[i])) - (equation.operands[i].size() - dots.size());
    c.expect(axes <= unused.size(), "the equation has more axes than there are letters");
    equation.operands[i].replace(at, dots.size(), unused.substr(unused.size() - axes));  // aligned at the last axis
  }
}

void einsum(Ctx& c) {
  Equation equation = parse(c.text("equation"));
  std::vector<Val> operands = c.tensors("tensors");
  const DType dtype = c.promoted_dtype(operands);
  for (Val& operand : operands) operand = c.cast(operand, dtype);
  c.expect(equation.operands.size() == operands.size(), "the equation must have one part for each operand");
  name_dropped_axes(c, equation, operands);
  if (is_matmul(equation)) return c.yield(c.emit("MatMul", operands));
  c.yield(c.emit("Einsum", operands, {{"equation", to_text(equation)}}));
}

// Contracts dims_self of self with dims_other of other, in order; the result has the remaining axes of self, then of
// other.
void tensordot(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("other");
  const Ints axes_a = c.integers("dims_self"), axes_b = c.integers("dims_other");
  c.expect(axes_a.size() == axes_b.size(), "dims_self and dims_other must have the same length");
  c.expect(c.rank(a) <= 26 && c.rank(b) <= 26, "tensors can have at most 26 axes");
  Equation equation{{"", ""}, "", true};
  for (int i = 0; i < c.rank(a); ++i) equation.operands[0].push_back(static_cast<char>('a' + i));
  for (int i = 0; i < c.rank(b); ++i) equation.operands[1].push_back(static_cast<char>('A' + i));
  std::string kept_a = equation.operands[0], kept_b = equation.operands[1];
  for (std::size_t i = 0; i < axes_a.size(); ++i) {
    const char letter = equation.operands[0][c.axis(axes_a[i], c.rank(a))];
    char& other = equation.operands[1][c.axis(axes_b[i], c.rank(b))];
    std::erase(kept_a, letter);
    std::erase(kept_b, other);
    other = letter;
  }
  equation.output = kept_a + kept_b;
  c.yield(c.emit("Einsum", {a, b}, {{"equation", to_text(equation)}}));
}

const OpEntry kEinsum[] = {
    {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum},
    {"aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot},
};

}  // namespace

OpFamily einsum_ops() { return kEinsum; }

}  // namespace whence::convert
