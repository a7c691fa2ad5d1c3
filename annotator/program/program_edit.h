// ProgramEdit: the values that a recorded program reads, and putting others in their place. The passes of lower/ work
// with it on a private copy of the program.
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

void replace(Argument& argument, const Replacements& replacements);  // in lists too; follows chains of replacements
void replace(std::vector<NamedArgument>& arguments, const Replacements& replacements);

// A node without results that stands in the place of `node`: of the same origin, and the caller adds the results.
Node node_like(const Node& node, std::string target, std::string overload, std::vector<NamedArgument> arguments);

// Every value that a node, a block or the program itself reads.
std::unordered_set<ValueId> values_read(const Program& program);

// Gives each node, bodies first, to `open`, which may put others in its place: it appends them and notes in `replaced`
// what stands for the node's results. Where it answers false the node stays.
void open_nodes(Program& program, Replacements& replaced,
                const std::function<bool(const Node& node, std::vector<Node>& to)>& open);

}  // namespace whence::program
