#include "annotator/comparison/wiring.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "annotator/comparison/repetitions.h"
#include "annotator/derivation/operator_classes.h"
#include "schema/program_walk.h"

namespace whence::comparison {

using derivation::is_arithmetic;
using derivation::is_movement;
using derivation::ProgramForm;

namespace {

// Returns true for a choice of elements in order: of a range, or of one place of an axis, which others write as a part
// of a Split.
bool selects(const graph::Graph& graph, const graph::GraphNode& node) {
  if (node.op_type == "Slice") return true;
  if (node.op_type != "Gather" || node.inputs.size() != 2) return false;
  const auto places = graph.integers(node.inputs[1]);
  return places && places->size() == 1;
}

}  // namespace

Wiring::Wiring(const Program& program, const std::vector<ProgramForm>& forms) {
  std::map<std::int32_t, std::int32_t> operations_of_scope;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> first;  // by module and place within its call
  for (const Node* node : operations(program)) {
    const std::int32_t scope = node->origin.scope.number(), operation = node->origin.op;
    const std::int32_t module = program.scopes[node->origin.scope].module.number();
    modules_.resize(std::max(modules_.size(), static_cast<std::size_t>(operation) + 1), -1);
    roles_.resize(modules_.size(), -1);
    modules_[static_cast<std::size_t>(operation)] = module;
    roles_[static_cast<std::size_t>(operation)] =
        first.try_emplace({module, operations_of_scope[scope]++}, operation).first->second;
  }
  add_recorded(program);
  std::set<const graph::Graph*> known;
  for (const ProgramForm& form : forms) {
    if (!known.insert(form.graph.get()).second) continue;
    std::unordered_map<graph::GraphValueId, std::set<std::int32_t>> inputs;
    inputs_.clear();
    for (std::size_t i = 0; i < form.graph->inputs.size(); ++i) {
      inputs[form.graph->inputs[i]] = {of_input(i)};
      inputs_.push_back(form.graph->values[static_cast<std::size_t>(form.graph->inputs[i])].name);
    }
    add(*form.graph, std::move(inputs));
  }
}

// Adds the operations whose results a recording holds as a constant: other files compute it.
void Wiring::add_recorded(const Program& program) {
  for (const Node* node : operations(program)) {
    each_operand(*node, [&](ValueId id) {
      const ConstantId recorded = program.values[id].known;
      if (recorded == none_id) return;
      for (const std::int32_t source : program.constants[recorded].ops) {
        sources_[node->origin.op].insert(source);
        readers_[source].insert(node->origin.op);
      }
    });
  }
}

// `sources`: the operations from which the graph's inputs and captured values come.
void Wiring::add(const graph::Graph& graph, std::unordered_map<graph::GraphValueId, std::set<std::int32_t>> sources) {
  for (const graph::GraphNode& node : graph.nodes) {
    if (node.removed) continue;
    std::set<std::int32_t> read;
    for (const graph::GraphValueId input : node.inputs) {
      if (const auto found = sources.find(input); found != sources.end())
        read.insert(found->second.begin(), found->second.end());
    }
    graph::for_each_body(node, [&](const graph::Graph& body) {
      std::unordered_map<graph::GraphValueId, std::set<std::int32_t>> inner;
      for (std::size_t i = 0; i < body.values.size(); ++i) {
        const auto outer = sources.find(body.values[i].captured);
        if (outer != sources.end()) inner[static_cast<graph::GraphValueId>(i)] = outer->second;
      }
      for (const graph::GraphValueId input : body.inputs) inner[input] = read;
      add(body, std::move(inner));
    });
    const bool moves = is_movement(node.op_type) || repeats_elements(graph, node);
    for (const std::int32_t operation : node.origin.ops) {
      if (is_arithmetic(node.op_type)) computing_.insert(operation);
      if (!moves && !selects(graph, node)) deciding_.insert(operation);
      sources_[operation].insert(read.begin(), read.end());
      for (const std::int32_t source : read) readers_[source].insert(operation);
    }
    // Other files may move at another place, or not at all: the results count as those before the movement, too.
    std::set<std::int32_t> made(node.origin.ops.begin(), node.origin.ops.end());
    if (moves) made.insert(read.begin(), read.end());
    for (const graph::GraphValueId output : node.outputs) {
      if (output != graph::no_value) sources[output].insert(made.begin(), made.end());
    }
  }
  if (graph.outer != nullptr) return;
  for (const auto& [reader, read] : sources_) {
    for (const std::int32_t source : read) sources_of_role_[role_of(reader)].insert(role_of(source));
  }
  outputs_.resize(std::max(outputs_.size(), graph.outputs.size()));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& made = sources[graph.outputs[i]];
    outputs_[i].insert(made.begin(), made.end());
  }
}

std::int32_t Wiring::role_of(std::int32_t operation) const {
  const auto at = static_cast<std::size_t>(operation);
  return operation >= 0 && at < roles_.size() && roles_[at] >= 0 ? roles_[at] : operation;
}

std::int32_t Wiring::module_of(std::int32_t operation) const {
  const auto at = static_cast<std::size_t>(operation);
  return operation >= 0 && at < modules_.size() ? modules_[at] : -1;
}

bool Wiring::are_of_one_module(std::int32_t one, std::int32_t other) const {
  return module_of(one) >= 0 && module_of(one) == module_of(other);
}

bool Wiring::reads(std::int32_t reader, std::int32_t source) const {
  const auto found = sources_of_role_.find(role_of(reader));
  return found != sources_of_role_.end() && found->second.contains(role_of(source));
}

bool Wiring::connects(const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& readers) const {
  for (const std::int32_t reader : readers) {
    for (const std::int32_t source : sources) {
      if (role_of(source) == role_of(reader) || reads(reader, source)) return true;
      if (!are_of_one_module(reader, source)) continue;
      const auto between = sources_.find(reader);
      if (between == sources_.end()) continue;
      for (const std::int32_t middle : between->second) {
        if (are_of_one_module(middle, reader) && reads(middle, source)) return true;
      }
    }
  }
  return false;
}

bool Wiring::reach(const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& readers,
                   Between between) const {
  const std::set<std::int32_t>& stops = between == Between::selections ? deciding_ : computing_;
  std::set<std::int32_t> seen(readers.begin(), readers.end());
  std::vector<std::int32_t> open(readers.begin(), readers.end());
  while (!open.empty()) {
    const auto read = sources_.find(open.back());
    open.pop_back();
    if (read == sources_.end()) continue;
    for (const std::int32_t source : read->second) {
      if (std::ranges::find(sources, source) != sources.end()) return true;
      if (!stops.contains(source) && seen.insert(source).second) open.push_back(source);
    }
  }
  return false;
}

std::set<std::int32_t> Wiring::readers_of(const std::vector<std::int32_t>& sources) const {
  std::set<std::int32_t> all(sources.begin(), sources.end());
  for (const std::int32_t source : sources) {
    if (const auto found = readers_.find(source); found != readers_.end())
      all.insert(found->second.begin(), found->second.end());
  }
  return all;
}

std::set<std::int32_t> Wiring::readers_of_parts(const std::vector<std::int32_t>& sources) const {
  std::set<std::int32_t> all = readers_of(sources);
  std::vector<std::int32_t> open(all.begin(), all.end());
  while (!open.empty()) {
    const std::int32_t operation = open.back();
    open.pop_back();
    const auto found = readers_.find(operation);
    if (deciding_.contains(operation) || found == readers_.end()) continue;
    for (const std::int32_t reader : found->second) {
      if (all.insert(reader).second) open.push_back(reader);
    }
  }
  return all;
}

std::set<std::int32_t> Wiring::sources_of(const std::vector<std::int32_t>& readers) const {
  std::set<std::int32_t> all;
  for (const std::int32_t reader : readers) {
    if (const auto found = sources_.find(reader); found != sources_.end())
      all.insert(found->second.begin(), found->second.end());
  }
  return all;
}

std::optional<std::size_t> Wiring::input_named(std::string_view name) const {
  const auto found = std::ranges::find(inputs_, name);
  if (found == inputs_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - inputs_.begin());
}

bool Wiring::is_output_of(std::size_t index, const std::vector<std::int32_t>& sources) const {
  return index < outputs_.size() &&
         std::ranges::any_of(sources, [&](std::int32_t source) { return outputs_[index].contains(source); });
}

}  // namespace whence::comparison
