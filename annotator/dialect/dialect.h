// Dialect: the form in which one tool takes a choice of nodes. A tool that ignores a name which it does not know, or
// cannot read one, would do something else than was asked for and say nothing; so a choice that a tool could not honour
// as a whole is an error here.
//
// To add one: a file with a `const Dialect`, a line below and one in dialects.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/view/node_selection.h"

namespace whence::dialect {

struct Choice {
  std::vector<view::SelectedNode> nodes;  // in file order
  const onnx_file::OnnxSummary& model;
  std::string setting;  // one of Dialect::settings
};

// The nodes of bodies (branches of an If, bodies of a Loop) that a tool knows by name.
enum class Bodies { seen, unseen };

struct Dialect {
  std::string_view name;                   // as --format takes it
  std::string_view summary;                // one line, for --help
  Bodies bodies = Bodies::unseen;          // `unseen` also where it is not known
  std::vector<std::string_view> settings;  // the first is the default; empty: a list of names alone
  // The reason why the tool cannot be given this node; empty when it can. Null: every name can be written.
  std::string (*refusal)(const view::SelectedNode& node, const onnx_file::OnnxSummary& model) = nullptr;
  std::string (*write)(const Choice& choice) = nullptr;
};

extern const Dialect names_dialect, modules_dialect, ort_quant_dialect, trt_precisions_dialect, trt_devices_dialect,
    polygraphy_dialect, nncf_dialect, nncf_openvino_dialect, olive_dialect, modelopt_dialect, graphsurgeon_dialect;

const std::vector<const Dialect*>& all_dialects();
// Throws Error(usage) for a name that none has.
const Dialect& find_dialect(const std::string& name);

// The names of a choice, each once, in file order.
std::vector<std::string> names_of(const Choice& choice);

}  // namespace whence::dialect
