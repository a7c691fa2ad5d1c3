// Tied parameters: which names belong to one parameter, and how many operations read it.
#include <gtest/gtest.h>

#include "annotator/derivation/tied_adapter.h"

namespace whence::derivation {
namespace {

// Two operations read "table.weight", which is also "head.weight"; none reads "other.weight", which is also
// "copy.weight".
Program program_with_tied_parameters() {
  Program program;
  for (const auto& [name, alias] : {std::pair("table.weight", "head.weight"), {"other.weight", "copy.weight"}}) {
    Parameter& parameter = program.parameters.items().emplace_back();
    parameter.name = name;
    parameter.aliases = {alias};
  }
  Value& table = program.values.items().emplace_back();
  table.source = ValueSource::parameter;
  table.index = 0;
  for (int i = 0; i < 2; ++i) {
    Node node;
    node.arguments.push_back({.name = "weight", .value = {.data = ValueRef{ValueId(0)}}});
    program.body.nodes.push_back(std::move(node));
  }
  return program;
}

TEST(TiedAdapter, CountsTheOperationsThatReadOneParameter) {
  const Program program = program_with_tied_parameters();
  EXPECT_EQ(reads_of_tied(program, "table.weight", "head.weight"), 2);
  EXPECT_EQ(reads_of_tied(program, "head.weight", "table.weight"), 2);
  EXPECT_EQ(reads_of_tied(program, "other.weight", "copy.weight"), 0);
}

TEST(TiedAdapter, NamesOfSeveralParametersAreNotTied) {
  const Program program = program_with_tied_parameters();
  EXPECT_EQ(reads_of_tied(program, "table.weight", "copy.weight"), 0);
  EXPECT_EQ(reads_of_tied(program, "table.weight", "unknown.weight"), 0);
}

}  // namespace
}  // namespace whence::derivation
