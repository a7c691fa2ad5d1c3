// What the passes share: the program they rewrite, where they report, and how to walk arguments.
//
// A pass works in place on a private copy of the program. Node indices (Origin::op) are never renumbered: they are the
// link back to the record. What a pass adds carries the origin of the operation it stands for.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "schema/diagnostic.h"
#include "schema/program.h"

namespace whence {

struct Lowering {
  Program& program;
  Diagnostics& failures;                 // what could not be lowered; lowering goes on, so that one run shows all
  Diagnostics& notes;                    // what users should know of a program that was lowered
  std::set<std::string> untouched = {};  // operators that stay as they are, for named_in()
};

// The entry of `operators` that speaks of the operator `key`, "aten::add.Tensor" as qualified() has it; the narrowest
// first: "aten::add.Tensor" ("aten::relu.default" of an overload without a name), then "aten::add", which is all of its
// overloads. nullptr where none does.
const std::string* named_in(const std::set<std::string>& operators, const std::string& key);

// Whether the axis may be 1 long in a run although it is not in the example: data decide its size, or nobody named it.
// torch.export calls sizes that data decide u0, u1, ...
bool may_become_one(const Program& program, const Dim& dim);

// Whether broadcasting an axis to `size`, where that is known, makes it longer in some run: expand(4) of an axis that
// data made 4 long in the example and may make 1.
bool may_widen(const Program& program, const Dim& dim, std::optional<std::int64_t> size);

// What takes a value's place: another value, or a literal.
using Replacements = std::unordered_map<ValueId, Argument>;

void replace(Argument& argument, const Replacements& replacements);  // in lists too; follows chains of replacements
void replace(std::vector<NamedArgument>& arguments, const Replacements& replacements);

void for_each_value(const Argument& argument, const std::function<void(ValueId)>& visit);

// Every value that a node, a block or the program itself reads.
std::unordered_set<ValueId> values_read(const Program& program);

// Gives each node, bodies first, to `open`, which may put others in its place: it appends them and notes in `replaced`
// what stands for the node's results. Where it answers false the node stays.
void open_nodes(Program& program, Replacements& replaced,
                const std::function<bool(const Node& node, std::vector<Node>& to)>& open);

// A number or flag that is known: a literal, or a value whose content is.
std::optional<std::int64_t> known_integer(const Program& program, const Argument& argument);
std::optional<bool> known_flag(const Program& program, const Argument& argument);

// Both sizes are certain to be equal at run time, axis by axis.
bool same_shape(const Type& a, const Type& b);

// Some node, in nested blocks too, for which `wanted` holds.
bool any_node(const Block& block, const std::function<bool(const Node&)>& wanted);

// The place of a node in a diagnostic: module, first source frame, operator.
Place place_of(const Program& program, const Node& node, std::string stage);

}  // namespace whence
