// Programs that are run and waited for. By posix_spawn: a fork of a process that holds LibTorch copies its page tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace whence {

struct ChildEnd {
  int status = 0;      // as waitpid gives it
  std::string output;  // from standard output
};

struct ChildOptions {
  std::vector<std::string> environment;  // "NAME=value"; empty: that of this process
  bool hide_errors = false;              // else its standard error is that of this process
};

// Runs words[0], which is looked for on PATH, with nothing on standard input. Returns nullopt, with errno set, for one
// that could not be started.
std::optional<ChildEnd> run_child(std::vector<std::string> words, ChildOptions options = {});

// Returns the texts as exec() and posix_spawn() take them, valid as long as `texts` is.
std::vector<char*> null_terminated(std::vector<std::string>& texts);

}  // namespace whence
