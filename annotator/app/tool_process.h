// Runs the command of an external tool, and keeps the end of its output.
#pragma once

#include <string>
#include <vector>

namespace whence::app {

struct ToolEnd {
  int status = 0;          // from waitpid()
  bool timed_out = false;  // killed after the timeout
  bool stopped = false;    // killed because whence received a signal to stop, which PostponedStops holds
  std::string words;       // the last lines on standard output and error
};

struct ToolLimits {
  double timeout = 0;       // seconds; 0: no limit
  bool show_words = false;  // copies what the tool prints to standard error
};

// Runs a tool in its own process group with an empty standard input. Killing it kills the group; it is also killed when
// this process ends. The caller must hold a PostponedStops. Throws Error(missing_file) for a program that cannot be
// started.
ToolEnd run_tool(const std::vector<std::string>& arguments, const ToolLimits& limits);

// Returns "status 1" or "signal 9 (Killed)".
std::string ending_text(int status);

}  // namespace whence::app
