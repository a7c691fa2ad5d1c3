// if c: x.add_(1)                    ->   x1 = if c: add(x, 1) else: x
// loop: x[i].copy_(s)                ->   x1 = loop (x' = x): select_scatter(x', s, 0, i)
//
// Memory from outside that a branch or loop body writes to is a further result of it, which a loop carries from
// iteration to iteration. What happens in a block is seen outside only through its results; views that it makes anew
// stay inside.
#include <algorithm>

#include "annotator/lower/functionalizer.h"
#include "schema/program_walk.h"

namespace whence::lower {

namespace {

template <class T>
void erase(std::vector<T>& list, std::size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class T>
void insert(std::vector<T>& list, std::size_t at, const std::vector<T>& more) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
}

bool is_read(const Block& block, ValueId id) {
  bool found = false;
  each_node(block, [&](const Node& node) { each_operand(node, [&](ValueId read) { found |= read == id; }); });
  return found;
}

}  // namespace

OuterWrites Functionalizer::outer_writes_of(const Node& node) const {
  return outer_writes(program_, node, [this](ValueId one, ValueId other) {
    return memory_.may_meet(memory_.renamed(one), memory_.renamed(other));
  });
}

void Functionalizer::branch(Node node) {
  const OuterWrites writes = outer_writes_of(node);
  const std::vector<ValueId> written = memory_.owners(writes.written);
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  const Memory::State before = memory_.state();
  Losses lost;
  std::vector<std::vector<ValueId>> left;  // by side: the written memory
  for (Block& side : node.blocks) {
    run(side, depth_ + 1);
    left.push_back(memory_.newest(written, lost));
    memory_.wind_back(before);
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (const auto why = lost.find(written[i]); why != lost.end()) {
      memory_.lose(written[i], why->second);
      continue;
    }
    for (std::size_t side = 0; side < 2; ++side) node.blocks[side].outputs.push_back({ValueRef{left[side][i]}});
    add_result(node, node.outputs.size(), written[i]);
  }
  for (auto kept = writes.kept.rbegin(); kept != writes.kept.rend(); ++kept) {
    memory_.alias(node.outputs[kept->position], memory_.renamed(kept->tensor));
    for (Block& side : node.blocks) erase(side.outputs, kept->position);
    erase(node.outputs, kept->position);
  }
  memory_.sink->push_back(std::move(node));
}

void Functionalizer::loop(Node node) {
  const OuterWrites writes = outer_writes_of(node);
  const std::vector<ValueId> written = memory_.owners(writes.written);
  const Diagnostic unclear = reports_.refusal(
      node, "the loop writes to what a variable is in some iterations, which is read later, and gives it another one");
  std::vector<ValueId> changing;
  for (const ValueId value : writes.changing) changing.push_back(memory_.renamed(value));
  for (const ValueId value : changing) reports_.warn_of_write(node, memory_.owner(value));
  const Aliases aliases = kept_variables(node, writes);
  Block& body = node.blocks[0];
  ArgumentList& initial = std::get<ArgumentList>(node.arguments.back().value.data);
  const std::size_t variables = initial.size();
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  for (const ValueId memory : written) initial.push_back({ValueRef{memory_.current(memory)}});

  const Memory::State before = memory_.state();
  const std::vector<ValueId> carried = carry(body, variables, written);
  const auto is_written = [&](ValueId value) {
    return std::ranges::find(written, memory_.owner(value)) != written.end();
  };
  if (std::ranges::any_of(changing, is_written)) reports_.report(unclear);
  const auto name_variables = [&] {
    for (const auto& [value, tensor] : aliases) memory_.alias(value, tensor);
    for (const ValueId value : changing) memory_.lose(value, unclear);
  };
  name_variables();
  doubt_variables(node, writes, unclear);
  run(body, depth_ + 1);
  Losses lost;
  const std::vector<ValueId> left = memory_.newest(written, lost);
  memory_.wind_back(before);
  name_variables();
  for (std::size_t i = 0; i < written.size(); ++i) {
    insert(body.outputs, 1 + variables + i, {Argument{ValueRef{left[i]}}});
    add_result(node, variables + i, written[i]);
    const auto why = lost.find(written[i]);
    if (why == lost.end()) continue;
    if (is_read(body, carried[i])) reports_.report(why->second);  // by the next iteration
    memory_.lose(written[i], why->second);
  }
  memory_.sink->push_back(std::move(node));
}

// Further inputs of the body, after its variables: what each iteration finds in the memory.
std::vector<ValueId> Functionalizer::carry(Block& body, std::size_t variables, const std::vector<ValueId>& written) {
  std::vector<ValueId> carried;
  for (const ValueId memory : written) {
    carried.push_back(memory_.fresh_like(memory));
    program_.values[carried.back()].source = ValueSource::block_input;
    memory_.now_holds(memory, carried.back());
  }
  insert(body.inputs, 1 + variables, carried);
  return carried;
}

// A variable that is other memory in some iterations is memory of its own in the body, and may be the other:
// `total = x; loop: x.add_(1); total = total + x`.
void Functionalizer::doubt_variables(const Node& loop, const OuterWrites& writes, const Diagnostic& unclear) {
  for (const OuterWrites::Sometimes& each : writes.sometimes) {
    memory_.doubt(each.variable, memory_.renamed(each.other), unclear, loop.blocks[0].inputs[0]);
  }
}

// Takes variables that are one tensor all along off the loop. What stood for them, inside and after it, with that
// tensor.
Functionalizer::Aliases Functionalizer::kept_variables(Node& loop, const OuterWrites& writes) {
  Aliases aliases;
  Block& body = loop.blocks[0];
  for (auto kept = writes.kept.rbegin(); kept != writes.kept.rend(); ++kept) {
    const std::size_t at = kept->position;
    for (const ValueId value : {body.inputs[at + 1], loop.outputs[at]}) {
      aliases.emplace_back(value, memory_.renamed(kept->tensor));
    }
    erase(body.inputs, at + 1);
    erase(body.outputs, at + 1);
    erase(loop.outputs, at);
    erase(std::get<ArgumentList>(loop.arguments.back().value.data), at);
  }
  return aliases;
}

// A further result of a node: what it leaves in the memory.
void Functionalizer::add_result(Node& node, std::size_t position, ValueId memory) {
  const ValueId result = memory_.fresh_like(memory);
  insert(node.outputs, position, {result});
  memory_.now_holds(memory, result);
  memory_.recover(memory);
}

}  // namespace whence::lower
