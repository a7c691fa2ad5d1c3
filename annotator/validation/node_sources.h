// NodeSources: which nodes of a tool's input a node of its output represents (docs/metadata-spec.md): the nodes
// that it must name, the nodes that it may name, and whether the tool only inserted it to serve others. Concluded
// from values, names, operators and attributes; of a node's metadata only the rule `inserted` is used.
//
// Called by tool_edit. If several answers are possible (a tool that renames all values, a node that may do the work of
// one of several), the answer with fewer findings is returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "annotator/view/diff_nodes.h"
#include "annotator/view/diff_pairs.h"

namespace whence::validation {

// How a node came into the file.
enum class Role : std::uint8_t {
  unknown,   // no requirement follows
  kept,      // the tool's input has the same node
  replaces,  // replaces other nodes, alone or together with other new nodes
  copy,      // repeats a computation of the tool's input, which stayed or had another name
  inserted,  // converts types or copies values for other nodes, or states that it was inserted
};

struct NodeSources {
  Role role = Role::unknown;
  std::vector<std::size_t> required;      // nodes before; the node must name all of them
  std::vector<std::size_t> alternatives;  // nodes before; the node must name at least one of them
  std::vector<std::size_t> optional;      // nodes before that the node may name
  std::vector<std::size_t> regions;       // indices of EditSources::regions; the node may name all their nodes
  // Nodes after. For an inserted node, the nodes that it may serve. For a kept node that may have absorbed others, the
  // producers of its inputs, which may have absorbed them instead.
  std::vector<std::size_t> neighbours;
  bool may_represent_none = false;  // it only moves elements, so it may be unattributed
};

// Nodes after that together replace nodes before, and together must name all of them.
struct SharedWork {
  std::vector<std::size_t> before, after;
};

struct EditSources {
  std::vector<NodeSources> by_node;  // by node after the tool
  std::vector<SharedWork> shared;
  // Groups of connected nodes before that were removed or are constant: a tool that absorbed one of them may have
  // absorbed all.
  std::vector<std::vector<std::size_t>> regions;
};

// Returns true if the operator only moves, repeats or relabels elements or changes their type. A file does not show
// whether a new node still does such work or whether the work was cancelled out.
bool only_moves(const onnx_file::OnnxNode& node);

// Cost: n log n in the nodes of both files.
EditSources find_sources(const view::DiffNodes& before, const view::DiffNodes& after, const view::NodePairs& pairs);

}  // namespace whence::validation
