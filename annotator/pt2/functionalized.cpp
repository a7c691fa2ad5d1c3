// auto_functionalized_v2(op, y=y, _x_base_index=0, _all_bases=[x])   ->   op(x, y); results: those of op, and the new x
// This is how torch.export stores an operator that writes to its arguments once a program is decomposed. The archive
// does not contain the operator's schema, so written arguments come first, the others in the archive's order.
#include <algorithm>
#include <array>
#include <set>

#include "annotator/pt2/graph.h"
#include "annotator/pt2/operands.h"

namespace whence::pt2 {
namespace {

constexpr std::string_view index_of_base = "_base_index";

// Returns "x" for "_x_base_index"; empty for any other name.
std::string written_argument(std::string_view name, std::string_view suffix = index_of_base) {
  if (!name.starts_with('_') || !name.ends_with(suffix) || name.size() < suffix.size() + 2) return "";
  return std::string(name.substr(1, name.size() - suffix.size() - 1));
}

// Returns true for the arguments that describe which part of its base a written x is, such as "_x_size".
bool describes_part(std::string_view name, const std::set<std::string>& written) {
  constexpr std::array<std::string_view, 6> parts = {"_size",      "_stride",      "_storage_offset",
                                                     "_slice_dim", "_slice_start", "_slice_end"};
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return written.contains(written_argument(name, part)); });
}

}  // namespace

void ExportedGraph::read_auto_functionalized(const Part& graph, const Part& part, Block& block) {
  const Part inputs = part.at("inputs");
  const auto kind_of_first = inputs.size() == 0 ? "" : inputs[0].at("arg").alternative().first;
  if (kind_of_first != "as_operator") reading_.corrupt("the operator is missing");
  Node node;
  node.origin = origin_of(part);
  set_target(inputs[0].at("arg").alternative().second.text(), node);
  read_functional_arguments(inputs, node);
  read_functional_results(graph, part.at("outputs"), node);
  place_by_parameters(node);
  block.nodes.push_back(std::move(node));
}

void ExportedGraph::read_functional_arguments(const Part& inputs, Node& node) {
  ArgumentList bases;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].at("name").view() != "_all_bases") continue;
    const Argument all = argument(inputs[i].at("arg"));
    if (const auto* list = all.as<ArgumentList>()) bases = *list;
  }
  const auto refuse = [&](const std::string& what) {
    unsupported(qualified(node) + ", which writes to " + what, "write to one tensor as a whole, or return the result");
  };
  std::set<std::string> written;
  std::set<std::int64_t> taken;
  std::vector<NamedArgument> others;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const std::string name = inputs[i].at("name").text();
    if (name == "_all_bases" || written.contains(written_argument(name, "_alias"))) continue;
    if (describes_part(name, written)) refuse("a part of a tensor");
    if (!written_argument(name, "_length").empty()) refuse("a list of tensors");
    const Argument given = argument(inputs[i].at("arg"));
    const std::string of_base = written_argument(name);
    if (of_base.empty()) {
      others.push_back({name, given});
      continue;
    }
    written.insert(of_base);
    const auto* index = given.as<std::int64_t>();
    const bool in_range = index == nullptr || (*index >= 0 && *index < static_cast<std::int64_t>(bases.size()));
    if (!in_range) reading_.corrupt("there is no base " + std::to_string(*index));
    if (index != nullptr && !taken.insert(*index).second) refuse("one tensor twice");
    node.arguments.push_back({of_base, index == nullptr ? given : bases[static_cast<std::size_t>(*index)]});
  }
  std::ranges::move(others, std::back_inserter(node.arguments));
}

// The archive has no types for results that nothing reads.
void ExportedGraph::read_functional_results(const Part& graph, const Part& outputs, Node& node) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (kind == "as_none") continue;
    if (kind != "as_tensor") unsupported("a list of results of " + qualified(node), "return tensors one by one");
    const std::string name = content.at("name").text();
    if (graph.at("tensor_values").has(name)) {
      node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
      continue;
    }
    Value unread;
    unread.name = name;
    unread.index = node.origin.op;
    node.outputs.push_back(program_.values.add(std::move(unread)));
  }
}

}  // namespace whence::pt2
