// A check of an ONNX file that onnx's own checker does not make: one file each in checks/, which ends with its entry;
// checks.cpp lists the entries. A check only looks; what it finds becomes one Finding with an item for each place.
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
  std::vector<const onnx_file::OnnxNode*> nodes;  // nodes of the graph, nested ones included
  const Program* program = nullptr;               // the sidecar's, when one was given
  const metadata::Recorded* recorded = nullptr;   // the same, when the file was exported from it
  const ToolEdit* edit = nullptr;                 // when the file before a tool was given
  std::vector<ExternalTensor> external = {};      // for the checks of files beside the model, which look once
};

struct FindingItem {
  std::string subject;  // node, value, domain, file: what the finding is about
  std::string detail;   // the problem with it; may be empty
};

// The name and remedy of a finding, for a check and for a gate (gates.h).
struct Rule {
  const char* code;     // "V101": stable, scripts match on it
  const char* name;     // "node_name_empty"
  const char* summary;  // text of a finding, in the plural: "nodes without a name"
  const char* remedy;
  const char* why;  // the harm it does, or what is needed to look for it
  Severity severity;

  const char* level() const { return severity == Severity::error ? "error" : "warning"; }
};

struct Check : Rule {
  std::vector<FindingItem> (*run)(const CheckContext& context);
  bool full = false;      // loads the whole model: runs with --full only
  bool compares = false;  // needs the file before a tool: runs with --conformance only
};

// Every check, in the order of its code.
const std::vector<const Check*>& all_checks();
const Check* find_check(std::string_view code_or_name);  // nullptr when there is none

// Every rule, checks and gates, in the order of its code.
const std::vector<const Rule*>& all_rules();

// The name of a node in reports: its name, or its operator and first output when it has none.
std::string shown_node(const onnx_file::OnnxNode& node);

}  // namespace whence::validation
