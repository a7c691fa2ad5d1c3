// ProgramEdit: finds the values that a program reads, and replaces values and nodes. The passes of lower/ use it on a
// private copy of the program.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "schema/program.h"

namespace whence::program {

// The replacement for each value: another value, or a literal.
using Replacements = std::unordered_map<ValueId, Argument>;

void replace(Argument& argument, const Replacements& replacements);  // also in lists; follows chains of replacements
void replace(std::vector<NamedArgument>& arguments, const Replacements& replacements);

// Returns a replacement for `node` with the same origin. It has no results; the caller adds them.
Node node_like(const Node& node, std::string target, std::string overload, std::vector<NamedArgument> arguments);

// Returns every value that a node, a block or the program itself reads.
std::unordered_set<ValueId> values_read(const Program& program);

// Calls `expand` for each node, bodies first. `expand` may replace the node: it appends nodes to `to`, adds the
// replacements of the results to `replaced`, and returns true. If it returns false, the node stays.
void expand_nodes(Program& program, Replacements& replaced,
                  const std::function<bool(const Node& node, std::vector<Node>& to)>& expand);

}  // namespace whence::program
