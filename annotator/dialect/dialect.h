// Dialect: the form in which one tool takes a choice of nodes. A tool that ignores a name which it does not know, or
// cannot read one, would do something else than was asked for and say nothing; so a choice that a tool could not honour
// as a whole is an error here.
//
// To add one: a file with a `const Dialect`, a line below and one in dialects.cpp.
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
  std::set<std::string_view> other_operators = {};  // that nodes outside of the choice have
};

// The nodes of bodies (branches of an If, bodies of a Loop) that a tool knows by name.
enum class Bodies { seen, unseen };

struct Dialect {
  std::string_view name;                   // as --format takes it
  std::string_view summary;                // one line, for --help
  Bodies bodies = Bodies::unseen;          // `unseen` also where it is not known
  std::vector<std::string_view> settings;  // the first is the default; empty: a list of names alone
  // The reason why the tool cannot be given this node of the choice; empty when it can. Null: every name can be
  // written.
  std::string (*refusal)(const view::SelectedNode& node, const Choice& choice) = nullptr;
  std::string (*write)(const Choice& choice) = nullptr;
  // The name that the tool gives the node, or a part of it, before it looks at its list; empty if it gives none. Null:
  // nodes keep their names.
  std::string (*renamed)(const view::SelectedNode& node) = nullptr;
};

extern const Dialect names_dialect, modules_dialect, ort_quant_dialect, trt_precisions_dialect, trt_devices_dialect,
    polygraphy_dialect, nncf_dialect, nncf_openvino_dialect, olive_dialect, modelopt_dialect, graphsurgeon_dialect;

const std::vector<const Dialect*>& all_dialects();
// Throws Error(usage) for a name that none has.
const Dialect& find_dialect(const std::string& name);

// The names of a choice, each once, in file order; each followed by the one that `renamed` gives its node.
std::vector<std::string> names_of(const Choice& choice,
                                  std::string (*renamed)(const view::SelectedNode& node) = nullptr);

}  // namespace whence::dialect
