// Validate ONNX files: how many nodes have a module and how surely, which modules have no node, and what is wrong with
// the file that onnx's own checker does not see.
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
  std::string sidecar = {};  // adds what became of each recorded operation and parameter
  std::vector<std::string> minima =
      {};  // least shares in percent: "exact=95", "covered=99@encoder.*", "covered=90@op:MatMul"
  std::vector<std::string> required = {};  // globs: modules that must have nodes, all of them covered
  std::string baseline = {};               // the file before, or what `whence validate --json` printed of it
  std::string conformance = {};            // the file that a tool made this one from: checks the tool (V6xx)
  std::vector<std::string> allowed = {};   // codes or names of checks whose findings do not count: "V101"
  std::vector<std::string> tolerances =
      {};             // findings that do not count: "3", "0.5%" of the nodes, "V503=2" of a check
  bool full = false;  // runs onnx's checker and shape inference too; loads the weights
};

struct ValidationReport {
  struct Problem {
    std::string code;     // "V101"; `whence rules` lists them
    std::string subject;  // node, value, module, ...; empty: the whole file
    std::string message;
  };
  bool clean = false;  // no finding that counts, and every gate reached
  NodeCounts nodes;
  std::vector<Problem> problems;
  std::string json;  // all of it (schema/validate.schema.json)
  Diagnostics notes;
};

// Throws whence::Error: usage for an unknown code or a threshold that cannot be read; those of a file that cannot be
// read.
ValidationReport validate(const std::string& model, const ValidateOptions& options = {});

}  // namespace whence
