// A fuzz target is a function that reads one hostile input. Each target is one file in targets/, which ends with its
// Target. Two programs run the targets: libfuzzer.cpp on inputs from libFuzzer, corpus.cpp on the inputs in seeds/ and
// findings/. This header also declares helpers for targets.
//
// A target may return, or throw Error with a code other than `internal`. Everything else is a finding: another
// exception, a diagnostic E0901, a failed require(), a signal, a sanitizer's report, disproportionate memory or time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/result.h"

namespace whence::fuzz {

// Changes `bytes` a little and keeps them well-formed; `random` selects the change.
using Mutate = std::string (*)(std::string_view bytes, unsigned random);

class Target {
 public:
  using Run = void (*)(std::string_view input);

  // `longest`: the maximum size of generated inputs. `mutate`: null if any bytes are well-formed.
  Target(std::string_view name, Run run, std::size_t longest = 4096, Mutate mutate = nullptr);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string_view name;
  const Run run;
  const std::size_t longest;
  const Mutate mutate;

  // Sorted by name.
  static const std::vector<const Target*>& all();
  static const Target* find(std::string_view name);  // nullptr if it does not exist
};

// Runs the target; calls abort() on a finding.
void run_target(const Target& target, std::string_view input);

// Aborts with `what` unless `holds`.
void require(bool holds, std::string_view what);

// Runs one part of a target. A permitted Error ends only this part.
void attempt(const std::function<void()>& part);

// Runs independent parts of a target, such as each command that reads the input. After attempt_one_part(), as under
// libFuzzer, runs only one part, selected by the length of the input, so that more inputs are tried in the same time.
void attempt_each(std::string_view input, const std::vector<std::function<void()>>& parts);
// Makes attempt_each() run only one part.
void attempt_one_part();

// Returns a path in a folder of this process, in memory if possible.
std::string scratch(std::string_view name);
// Writes `content` to scratch(name) and returns the path.
std::string file_of(std::string_view name, std::string_view content);
std::string content_of(const std::string& path);

// Runs a subcommand of whence in this process without its output. Its exceptions propagate.
void run_command(const std::vector<std::string>& arguments);

// Files of one small model, exported once per process, for targets whose hostile input is another file.
struct ValidModel {
  std::string archive, model, sidecar;
};
const ValidModel& valid_model();

}  // namespace whence::fuzz
