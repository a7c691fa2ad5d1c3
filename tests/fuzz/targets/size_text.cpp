// Parses sizes and guards in an archive's notation: "Mul(Integer(2), Symbol('s77', positive=True))", "s0 // 2 == 4".
#include "schema/size_text.h"

#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

// Assigns one symbol to each first letter of a name.
std::optional<Size> named(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(Size::symbol(SymbolId(name.front() & 7)));
}
std::string name_of(SymbolId id) { return {static_cast<char>('p' + id.number())}; }

void run(std::string_view input) {
  read_constraints(input, named);
  const auto size = read_size(input, named);
  if (!size || !size->is_known()) return;
  const auto again = read_size(text_of(*size, name_of), named);
  require(again && *again == *size, "a size changed when it was written");
  require((*size - *size) == Size(0) || !(*size - *size).is_known(), "a size minus itself is not 0");
}

const Target target("size_text", run, 1024);

}  // namespace
}  // namespace whence::fuzz
