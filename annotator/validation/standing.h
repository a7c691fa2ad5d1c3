// Standing: which nodes before a tool a node after it stands for, by docs/metadata-spec.md: those that it must name,
// those that it may name besides, and whether it was only put in for the sake of others. Concluded from values, names,
// operators and attributes; from what nodes say of themselves only that one declares itself inserted.
//
// Called by tool_edit. Where two answers are possible (a tool that renames all values, a node whose work may be that of
// one of several) the answer that finds less is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "annotator/view/diff_nodes.h"
#include "annotator/view/diff_pairs.h"

namespace whence::validation {

// The way in which a node came into the file.
enum class Role : std::uint8_t {
  unknown,   // nothing follows
  kept,      // the same node was there before
  replaces,  // it took the place of others, alone or with other new nodes
  copy,      // the same computation was there before, and stayed or was made by a node of another name
  inserted,  // it changes types or copies values for others, or says that it was put in
};

struct Standing {
  Role role = Role::unknown;
  std::vector<std::size_t> must;     // nodes before; all of them
  std::vector<std::size_t> any_of;   // nodes before; at least one of them
  std::vector<std::size_t> may;      // nodes before, beside those of `regions`
  std::vector<std::size_t> regions;  // indices of Standings::regions: all nodes of these may be named too
  std::vector<std::size_t>
      neighbours;  // nodes after; of an inserted one, those that it may have been put in for; of a kept one that
                   // may have taken others in, those that make its inputs and may have done so instead
  bool may_serve_none = false;  // it only moves elements, so it may say that it stands for nothing
};

// Nodes after that share the work of nodes before: together they must name all of it.
struct SharedWork {
  std::vector<std::size_t> before, after;
};

struct Standings {
  std::vector<Standing> of;  // by node after the tool
  std::vector<SharedWork> shared;
  // Nodes before that are gone, or constant, and depend on each other: what a tool that made something of one of them
  // may have made of all.
  std::vector<std::vector<std::size_t>> regions;
};

// True if the operator only moves, repeats or relabels elements or changes their type. Whether a new node still does
// that, or it was cancelled out, cannot be seen in a file.
bool only_moves(const onnx_file::OnnxNode& node);

// Cost: n log n of the nodes of both files.
Standings standings_of(const view::DiffNodes& before, const view::DiffNodes& after, const view::NodePairs& pairs);

}  // namespace whence::validation
