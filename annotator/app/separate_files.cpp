#include "annotator/app/separate_files.h"

#include <filesystem>
#include <map>

#include "annotator/onnx_file/data_file.h"
#include "annotator/onnx_file/data_locations.h"
#include "schema/files/leftovers.h"
#include "schema/files/new_file.h"
#include "schema/files/paths.h"
#include "schema/sidecar/file_names.h"

namespace whence::app {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(Code::usage, message, "name another file for one of them", Place{.stage = "command line"});
}

bool is_device(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

std::vector<std::string> weights_of(const std::string& path) {
  std::error_code ignored;
  std::vector<std::string> files;
  if (!fs::is_regular_file(path, ignored)) return files;
  for (const std::string& location : onnx_file::data_locations_in(path)) {
    files.push_back(onnx_file::find_data_file(path, location).path.string());
  }
  return files;
}

// Refuses an output that is a data file of a model in its folder. An output that is itself a model may be replaced.
void require_no_weights_of_neighbours(const NamedFile& output) {
  constexpr int max_models = 256;  // models to check
  std::error_code failure;
  if (!fs::is_regular_file(output.path, failure) || fs::path(output.path).extension() == ".onnx") return;
  fs::directory_iterator entries(fs::path(place_of(output.path)).parent_path(), failure);
  for (int seen = 0; !failure && seen < max_models && entries != fs::directory_iterator(); entries.increment(failure)) {
    if (entries->path().extension() != ".onnx") continue;
    ++seen;
    for (const std::string& data : weights_of(entries->path().string())) {
      if (!same_file(data, output.path)) continue;
      refuse(output.name + " would replace the weights of " + entries->path().string() + ": " + output.path);
    }
  }
}

void require_separate(const NamedFile& input, const NamedFile& output, bool in_place) {
  if (!in_place && same_file(input.path, output.path)) {
    refuse(output.name + " would replace " + input.name + ": " + output.path);
  }
  std::error_code ignored;
  if (!fs::exists(output.path, ignored)) return;  // reads models only if a file could be lost
  for (const std::string& data : weights_of(input.path)) {
    if (same_file(data, output.path)) {
      refuse(output.name + " would replace the weights of " + input.name + ": " + output.path);
    }
  }
}

}  // namespace

void require_separate(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs,
                      const std::string& in_place) {
  // Before anything is read, restores files that a killed run had started to replace.
  for (const NamedFile& output : outputs) {
    const std::string place = place_of(output.path);
    if (!place.empty()) remove_leftovers_once(folder_of(place));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].path.empty()) continue;
    if (outputs[i].path == "-") {
      throw Error(Code::usage, outputs[i].name + " is '-', which is not supported for standard output",
                  "pass a file, /dev/stdout, or ./- for a file named '-'", Place{.stage = "command line"});
    }
    if (is_device(outputs[i].path)) continue;
    for (const NamedFile& input : inputs) {
      if (!input.path.empty()) require_separate(input, outputs[i], i == 0 && input.name == in_place);
    }
    require_no_weights_of_neighbours(outputs[i]);
  }
  require_distinct(outputs);
}

void require_distinct(const std::vector<NamedFile>& outputs) {
  std::map<std::string, std::string> names;  // by resolved path
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || is_device(output.path)) continue;
    const auto [other, first] = names.emplace(place_of(output.path), output.name);
    if (!first) refuse(other->second + " and " + output.name + " would be one file: " + output.path);
  }
}

onnx_file::ModelOutput model_output(const std::vector<NamedFile>& inputs, const NamedFile& output, InPlace in_place,
                                    bool overwrite) {
  require_model_name(output.path);
  require_separate(inputs, {output}, in_place == InPlace::allowed ? inputs.front().name : "");
  onnx_file::ModelOutput result(output.path);
  result.overwrite = overwrite;
  for (const NamedFile& input : inputs) {
    if (!input.path.empty()) result.needed.push_back(input.path);
  }
  return result;
}

}  // namespace whence::app
