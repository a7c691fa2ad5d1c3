// The Markdown report of an export: what was written or what stands in the way, and where in the model; the operators,
// the time of each stage, the program.
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
  // The stage that was begun before ends here.
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
  const Program* program = nullptr;     // null when it could not be read
  const graph::Graph* graph = nullptr;  // null when it could not be converted
  bool written = false;
  Diagnostics diagnostics = {};
  Stages stages = {};
};

std::string to_markdown(const ExportRun& run);

}  // namespace whence::app
