// Validates ONNX files: counts nodes with a module by confidence, lists modules without nodes, and finds problems that
// onnx's own checker does not check.
//
//   const auto report = whence::validate("model.onnx", {.sidecar = "model.whence.json", .minima = {"covered=99"}});
//   if (!report.clean) std::puts(report.json.c_str());
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed.
#pragma once

#include <string>
#include <vector>

#include "whence/annotate.h"
#include "whence/diagnostics.h"

namespace whence {

struct ValidateOptions {
  std::string sidecar = {};  // adds a report on each recorded operation and parameter
  // Minimum shares in percent: "exact=95", "covered=99@encoder.*", "covered=90@op:MatMul".
  std::vector<std::string> minima = {};
  std::vector<std::string> required = {};  // globs: modules that must have nodes, all of them covered
  std::string baseline = {};               // an earlier file, or its report by `whence validate --json`
  std::string attested = {};     // a statement of `whence attest`: must be about the file and leave nothing unaccounted
  std::string conformance = {};  // the input from which a tool made this file: checks the tool (V6xx)
  std::vector<std::string> allowed = {};  // codes or names of checks whose findings do not count: "V101"
  // Numbers of findings that do not count: "3", "0.5%" of the nodes, "V503=2" for one check.
  std::vector<std::string> tolerances = {};
  bool full = false;  // runs onnx's checker and shape inference too; loads the weights
};

struct ValidationReport {
  struct Problem {
    std::string code;     // "V101"; `whence rules` lists them
    std::string subject;  // node, value, module, ...; empty for the file itself
    std::string message;
  };
  bool clean = false;  // no finding counts, and every minimum is reached
  NodeCounts nodes;
  std::vector<Problem> problems;
  std::string json;  // the complete report (schema/validate.schema.json)
  Diagnostics notes;
};

// Throws whence::Error: usage for an unknown code or an invalid threshold; errors of reading a file.
ValidationReport validate(const std::string& model, const ValidateOptions& options = {});

}  // namespace whence
