// The Markdown report of an export: the written file or the errors with their locations in the model; operators, the
// time of each stage, and the program.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "schema/program.h"
#include "schema/result.h"

namespace whence::app {

// Wall time by stage, in the order of the stages.
class Stages {
 public:
  // Starts a stage and ends the previous one.
  void begin(std::string name);
  void end();
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point since_;
  std::vector<std::pair<std::string, double>> seconds_;
};

struct ExportRun {
  std::string archive, output;
  int opset = 0;
  const Program* program = nullptr;     // null if it could not be read
  const graph::Graph* graph = nullptr;  // null if it could not be converted
  bool written = false;
  Diagnostics diagnostics = {};
  Stages stages = {};
};

std::string to_markdown(const ExportRun& run);

}  // namespace whence::app
