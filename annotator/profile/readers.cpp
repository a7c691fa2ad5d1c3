// Lists all readers and chooses the reader of a file.
#include <algorithm>
#include <array>

#include "annotator/profile/executorch.h"
#include "annotator/profile/openvino_counters.h"
#include "annotator/profile/openvino_runtime_model.h"
#include "annotator/profile/ort_assignment.h"
#include "annotator/profile/ort_memory.h"
#include "annotator/profile/ort_profile.h"
#include "annotator/profile/profile_reader.h"
#include "annotator/profile/qnn.h"
#include "annotator/profile/tensorrt.h"

namespace whence::profile {
namespace {

// Tried in this order; no two readers recognise the same file.
constexpr std::array<const ProfileReader*, 10> all_readers = {
    &ort_profile_reader,       &ort_assignment_reader,   &ort_memory_reader,      &openvino_model_reader,
    &openvino_counters_reader, &tensorrt_profile_reader, &tensorrt_layers_reader, &qnn_profile_reader,
    &qnn_trace_reader,         &executorch_reader};

const ProfileReader& reader_of(const ProfileInput& input) {
  const auto reader =
      std::ranges::find_if(all_readers, [&](const ProfileReader* each) { return each->recognises(input); });
  if (reader != all_readers.end()) return **reader;
  const bool json = input.json.has_value();
  std::string what = json ? "the JSON file is not a profile: it has neither ONNX Runtime's list of events nor another "
                            "runtime's format"
                          : "unknown profile format";
  const bool no_events = json && input.json->is_array();
  if (no_events) what = "the profile has no run of a model";
  throw Error(Code::wrong_kind, std::move(what),
              "set SessionOptions.enable_profiling, run the model, and pass the file that end_profiling() names; "
              "docs/profile.md describes the files of OpenVINO, TensorRT, QNN and ExecuTorch",
              input.place);
}

void add_names(RuntimeProfile& profile, const LayerNames& names, const Place& place) {
  std::size_t matched = 0;
  for (Layer& layer : profile.layers) {
    const auto found = names.find(layer.name);
    if (found == names.end()) continue;
    ++matched;
    if (!found->second.holds.empty()) layer.holds = found->second.holds;
    if (!found->second.op_type.empty()) layer.op_type = found->second.op_type;
  }
  if (matched == 0) {
    throw Error(Code::sidecar_mismatch, "the file names no layer of the profile", "pass a file of the same engine",
                place);
  }
}

using OpenedFile = std::pair<const ProfileReader*, ProfileInput>;

// Returns true if the file describes the layers of another one of the files. A file that has measurements of its own,
// such as the list of providers, does so only next to a file with its layers' times.
bool describes_another(const ProfileReader& reader, const std::vector<OpenedFile>& files) {
  if (reader.read_names == nullptr) return false;
  return reader.read == nullptr ||
         std::ranges::any_of(files, [&](const OpenedFile& each) { return each.first->name == reader.times_of; });
}

}  // namespace

std::string_view name_of(Unit unit) {
  constexpr std::string_view names[] = {"microseconds", "cycles", "bytes", "nodes"};
  return names[static_cast<std::size_t>(unit)];
}

RuntimeProfile read_runtime_profile(const std::vector<std::string>& paths, const ReadOptions& options) {
  std::vector<OpenedFile> files;
  for (const std::string& path : paths) {
    ProfileInput input = open_profile(path);
    const ProfileReader& reader = reader_of(input);
    files.emplace_back(&reader, std::move(input));
  }
  std::optional<RuntimeProfile> profile;
  std::vector<const OpenedFile*> name_files;
  for (const OpenedFile& file : files) {
    const auto& [reader, input] = file;
    if (describes_another(*reader, files)) {
      name_files.push_back(&file);
    } else if (profile) {
      throw Error(Code::usage, "expected one file with measurements, got two",
                  "to compare two profiles, pass the second with --against", input.place);
    } else {
      profile = reader->read(input, options);
      profile->source = reader->name;
    }
  }
  if (!profile) {
    const Place place = name_files.empty() ? Place{} : name_files.front()->second.place;
    throw Error(Code::usage, "the file lists the nodes of layers, but no file has their times",
                "pass the profile with a second --profile", place);
  }
  if (options.warmup_runs.value_or(profile->warmup_runs) != profile->warmup_runs) {
    throw Error(Code::usage, "the file has only sums or averages of its runs, so no run can be left out",
                "omit --warmup", {.file = paths.front(), .stage = "profile"});
  }
  for (const OpenedFile* file : name_files) {
    const auto& [reader, input] = *file;
    if (reader->times_of != profile->source) {
      throw Error(Code::usage,
                  "a " + std::string(reader->form) + " does not belong to a profile of " + std::string(profile->source),
                  "pass files of the same runtime", input.place);
    }
    add_names(*profile, reader->read_names(input, *profile), input.place);
  }
  return std::move(*profile);
}

}  // namespace whence::profile
