// Sizes that follow from others, as sympy's trees in an archive: "Mul(Integer(2), Symbol('s77', positive=True))".
#include "annotator/pt2/size_expression.h"

#include "annotator/pt2/size_product.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const auto expression = pt2::size_expression(input);
  const std::string text = expression.value_or(std::string(input));
  require(pt2::renamed(text, "s77", "s77") == text, "renaming a symbol to itself changed the expression");
  pt2::renamed(text, input.substr(0, input.size() / 2), "batch");
  if (const auto product = pt2::size_product(input)) {
    require(pt2::multiplied(*product, {}) == product, "a product times 1 is another one");
  }
}

const Target target("size_expression", run, 1024);

}  // namespace
}  // namespace whence::fuzz
