// The kind of a symbol, not its name, determines whether the size may be 1.
#include "annotator/program/program_facts.h"

#include <gtest/gtest.h>

namespace whence::program {
namespace {

Symbol symbol(const char* name, SymbolKind kind, Size size = Size::unknown()) {
  return {name, 4, {}, {}, kind, std::move(size)};
}

TEST(ProgramFacts, TheKindDeterminesWhetherASizeMayBeOne) {
  Program program;
  const Size u1 = Size::symbol(SymbolId(0)), batch = Size::symbol(SymbolId(1));
  program.symbols.items() = {symbol("u1", SymbolKind::axis),
                             symbol("batch", SymbolKind::data),
                             symbol("u2", SymbolKind::derived, u1 + 1),
                             symbol("v", SymbolKind::derived, batch + 1),
                             symbol("w", SymbolKind::derived, batch * 2),
                             symbol("old", SymbolKind::unknown)};
  const auto may_be_one = [&](int id) { return may_become_one(program, {4, true, SymbolId(id)}); };
  EXPECT_FALSE(may_be_one(0));
  EXPECT_TRUE(may_be_one(1));
  EXPECT_TRUE(may_be_one(2));  // if u1 is 0
  EXPECT_TRUE(may_be_one(3));
  EXPECT_FALSE(may_be_one(4));  // even
  EXPECT_TRUE(may_be_one(5));   // from a sidecar without kinds
  EXPECT_TRUE(may_become_one(program, {4, true, none_id}));
  EXPECT_FALSE(may_become_one(program, {4, false, none_id}));
  program.symbols[SymbolId(1)].min = 2;
  EXPECT_FALSE(may_be_one(1));
}

}  // namespace
}  // namespace whence::program
