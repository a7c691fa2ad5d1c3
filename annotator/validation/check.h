// Checks of an ONNX file beyond onnx's own checker. Each file in checks/ defines one check and ends with its entry;
// checks.cpp lists the entries. A check changes nothing. Its results become one Finding with an item for each defect.
#pragma once

#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/validation/external_data.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::validation {

struct ToolEdit;

struct CheckContext {
  const onnx_file::OnnxSummary& model;
  std::vector<const onnx_file::OnnxNode*> nodes;  // all nodes of the graph, including nested nodes
  const Program* program = nullptr;               // of the sidecar; null without one
  const metadata::Recorded* recorded = nullptr;   // of `program`; null if the file was not exported from it
  const ToolEdit* edit = nullptr;                 // only with --conformance
  std::vector<ExternalTensor> external = {};      // looked up once for all checks of external data
};

struct FindingItem {
  std::string subject;  // the node, value, domain or file with the problem
  std::string detail;   // the problem; may be empty
};

// The name and remedy of a finding, for a check and for a gate (gates.h).
struct Rule {
  const char* code;     // "V101"; stable: scripts match on it
  const char* name;     // "node_name_empty"
  const char* summary;  // text of a finding, in the plural: "nodes without a name"
  const char* remedy;
  const char* why;  // the harm that the defect does, or the option that the check needs
  Severity severity;

  const char* level() const { return severity == Severity::error ? "error" : "warning"; }
};

struct Check : Rule {
  std::vector<FindingItem> (*run)(const CheckContext& context);
  bool full = false;      // loads the weights too: runs only with --full
  bool compares = false;  // needs the tool's input: runs only with --conformance
};

// All checks, ordered by code.
const std::vector<const Check*>& all_checks();
const Check* find_check(std::string_view code_or_name);  // nullptr if there is none

// All rules (checks and gates), ordered by code.
const std::vector<const Rule*>& all_rules();

// Returns the label of a node in reports: its name, or its operator and first output if it has no name.
std::string shown_node(const onnx_file::OnnxNode& node);

}  // namespace whence::validation
