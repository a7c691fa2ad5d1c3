// ProfileReader: reads one format of profiles. A format is recognised by content, never by file name; readers.cpp lists
// all readers.
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
  std::optional<std::int64_t> warmup_runs;  // number of runs to leave out; default: the first of several
};

struct LayerFacts {
  HeldNodes holds;
  std::string op_type;
};
using LayerNames = std::map<std::string, LayerFacts, std::less<>>;  // by layer name

struct ProfileReader {
  std::string_view name;  // in JSON: "onnxruntime"
  std::string_view form;  // in messages: "profile of ONNX Runtime"
  bool (*recognises)(const ProfileInput& input);
  // Reads the measurements. Null: the file only lists the nodes of layers whose times are in another file.
  RuntimeProfile (*read)(const ProfileInput& input, const ReadOptions& options);
  // Reads the nodes of the layers in `profile`, which the reader `times_of` read from another file.
  LayerNames (*read_names)(const ProfileInput& input, const RuntimeProfile& profile) = nullptr;
  std::string_view times_of = {};
};

// Reads one profile: a file of times (or cycles, or bytes), and files that list the nodes of its layers.
// Errors: as open_profile() and the reader; wrong_kind for an unknown format; usage for files that do not belong
// together, and for more warm-up runs than there are.
RuntimeProfile read_runtime_profile(const std::vector<std::string>& paths, const ReadOptions& options);

}  // namespace whence::profile
