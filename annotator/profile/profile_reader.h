// ProfileReader: one form of profile. A file is recognised by its content, never by its name; readers.cpp lists them
// all.
//
// To add a runtime: a file pair with one or two `const ProfileReader`s, and a line in readers.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/profile/profile_input.h"
#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

struct ReadOptions {
  std::optional<std::int64_t> warmup_runs;  // how many to leave out; by default the first of several
};

struct LayerFacts {
  HeldNodes holds;
  std::string op_type;
};
using LayerNames = std::map<std::string, LayerFacts, std::less<>>;  // by name of the layer

struct ProfileReader {
  std::string_view name;  // as JSON has it: "onnxruntime"
  std::string_view form;  // for messages: "profile of ONNX Runtime"
  bool (*recognises)(const ProfileInput& input);
  // Reads what the file measured. Null: the file only says which nodes the layers of a profile beside it hold.
  RuntimeProfile (*read)(const ProfileInput& input, const ReadOptions& options);
  LayerNames (*read_names)(const ProfileInput& input) = nullptr;
  std::string_view times_of = {};  // the reader whose layers `read_names` is about
};

// One profile: a file of times (or cycles, or bytes), and those beside it that say what its layers hold.
// Errors: those of open_profile; wrong_kind for a file of no form that is known; usage for files that do not belong
// together, and for more warm-up runs than there are; those of the reader.
RuntimeProfile read_runtime_profile(const std::vector<std::string>& paths, const ReadOptions& options);

}  // namespace whence::profile
