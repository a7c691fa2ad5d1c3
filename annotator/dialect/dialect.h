// Dialect: the format in which a tool takes a choice of nodes. Tools silently ignore unknown or unreadable names, so a
// choice that a tool cannot honour completely is an error here.
//
// To add a dialect: a file with a `const Dialect`, a line below and one in dialects.cpp.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/view/node_selection.h"

namespace whence::dialect {

struct Choice {
  std::vector<view::SelectedNode> nodes;  // in file order
  const onnx_file::OnnxSummary& model;
  std::string setting;                              // one of Dialect::settings
  std::set<std::string_view> other_operators = {};  // operators of nodes outside the choice
};

// States whether a tool finds nodes in bodies (branches of an If, bodies of a Loop) by name.
enum class Bodies { seen, unseen };

struct Dialect {
  std::string_view name;                   // value of --format
  std::string_view summary;                // one line, for --help
  Bodies bodies = Bodies::unseen;          // `unseen` also if unknown
  std::vector<std::string_view> settings;  // values of --as, the first is the default; empty: takes none
  // Returns the reason why the tool cannot take this node; empty if it can. Null: the tool takes every name.
  std::string (*refusal)(const view::SelectedNode& node, const Choice& choice) = nullptr;
  std::string (*write)(const Choice& choice) = nullptr;
  // Returns the name that the tool gives the node, or a part of it, before it reads its list; empty if it gives none.
  // Null: the tool renames no nodes.
  std::string (*renamed)(const view::SelectedNode& node) = nullptr;
  std::string_view limit = {};  // printed as a note with every text: versions of the tool that do not read it
};

extern const Dialect names_dialect, modules_dialect, ort_quant_dialect, trt_precisions_dialect, trt_devices_dialect,
    polygraphy_dialect, nncf_dialect, nncf_openvino_dialect, olive_dialect, modelopt_dialect, modelopt_autocast_dialect,
    graphsurgeon_dialect;

const std::vector<const Dialect*>& all_dialects();
// Throws Error(usage) for an unknown name.
const Dialect& find_dialect(const std::string& name);

// Returns the distinct names of a choice in file order, each followed by the name from `renamed`.
std::vector<std::string> names_of(const Choice& choice,
                                  std::string (*renamed)(const view::SelectedNode& node) = nullptr);

}  // namespace whence::dialect
