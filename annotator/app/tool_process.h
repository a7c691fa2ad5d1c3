// Runs the command of a tool that is not whence's, and keeps the end of what it prints.
#pragma once

#include <string>
#include <vector>

namespace whence::app {

struct ToolEnd {
  int status = 0;          // as waitpid() gives it
  bool timed_out = false;  // it was killed for that
  bool stopped = false;    // whence itself was told to end, and the tool was killed; PostponedStops has the signal
  std::string words;       // its last lines on standard output and error
};

struct ToolLimits {
  double timeout = 0;       // seconds; 0: none
  bool show_words = false;  // copies what the tool prints to standard error
};

// The tool has a process group of its own and an empty standard input. When it is killed, so is its group; it dies with
// this process, too. The caller holds a PostponedStops. Throws Error(missing_file) for a program that cannot be
// started.
ToolEnd run_tool(const std::vector<std::string>& arguments, const ToolLimits& limits);

// "status 1", "signal 9 (Killed)"
std::string ending_text(int status);

}  // namespace whence::app
