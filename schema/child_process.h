// Runs programs and waits for them. Uses posix_spawn: fork would copy the page tables, which are large with LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace whence {

struct ChildResult {
  int status = 0;      // the status of waitpid
  std::string output;  // standard output
};

struct ChildOptions {
  std::vector<std::string> environment;  // "NAME=value"; empty: inherit
  bool hide_errors = false;              // discard standard error instead of inheriting it
};

// Runs words[0], looked up on PATH, with empty standard input. Returns nullopt and sets errno if it cannot be started.
std::optional<ChildResult> run_child(std::vector<std::string> words, ChildOptions options = {});

// Returns an argument array for exec() and posix_spawn(), valid as long as `texts`.
std::vector<char*> null_terminated(std::vector<std::string>& texts);

}  // namespace whence
