// A fuzz target: a function that reads one hostile input, and what a target may use to do so. A target is one file in
// targets/, which ends with its Target. Two programs run it: libfuzzer.cpp with inputs that libFuzzer makes up,
// corpus.cpp with those of the folders seeds/ and findings/.
//
// A target may return, or throw Error with a code other than `internal`. Everything else is a finding: another
// exception, a diagnostic E0901, require() of something that does not hold, a signal, a sanitizer's report, memory or
// time out of proportion.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/result.h"

namespace whence::fuzz {

// Changes `bytes` a little in a way that keeps their form; `random` decides how.
using Mutate = std::string (*)(std::string_view bytes, unsigned random);

class Target {
 public:
  using Run = void (*)(std::string_view input);

  // `longest`: inputs of more bytes are not made up. `mutate`: null for bytes without a form that would be lost.
  Target(std::string_view name, Run run, std::size_t longest = 4096, Mutate mutate = nullptr);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string_view name;
  const Run run;
  const std::size_t longest;
  const Mutate mutate;

  // In the order of their names.
  static const std::vector<const Target*>& all();
  static const Target* find(std::string_view name);  // nullptr when there is none
};

// Runs the target; ends the process with abort() for a finding.
void run_target(const Target& target, std::string_view input);

// Aborts with `what` when it does not hold.
void require(bool holds, std::string_view what);

// Runs one part of a target. An Error of it that a target may throw ends that part alone.
void attempt(const std::function<void()>& part);

// Runs the parts of a target that do not need each other: each command that reads the input, say. Where time decides,
// as under libFuzzer, one of them, which the length of the input chooses: as many more inputs are tried in the same
// time.
void attempt_each(std::string_view input, const std::vector<std::function<void()>>& parts);
// From now on, one part of an input.
void attempt_one_part();

// A path in a folder of this process, in memory where the machine has such a disk.
std::string scratch(std::string_view name);
// The same, once the file holds `content`.
std::string file_of(std::string_view name, std::string_view content);
std::string content_of(const std::string& path);

// Runs a subcommand of whence in this process, its output dropped; throws what it throws.
void run_command(const std::vector<std::string>& arguments);

// Files of one small model for targets whose hostile input is another file: exported by this process, once.
struct GoodModel {
  std::string archive, model, sidecar;
};
const GoodModel& good_model();

}  // namespace whence::fuzz
