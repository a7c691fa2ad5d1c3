#include "annotator/onnx_file/carried_data.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "annotator/onnx_file/data_file.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/text/unique_names.h"
#include "schema/files/paths.h"
#include "schema/json_text.h"

namespace whence::onnx_file {

namespace keys = origin::keys;

namespace fs = std::filesystem;

namespace {

std::string in_folder_of(const std::string& file, const std::string& name) {
  return (fs::path(file).parent_path() / name).string();
}

// Refuses a link into another folder: the link is followed on writing, so the data could be next to the link or next to
// the file, but not both.
void refuse_link_to_another_folder(const std::string& output, const Place& place) {
  std::error_code ignored;
  if (!fs::is_symlink(output, ignored)) return;
  const std::string file = place_of(output);
  if (fs::path(file).parent_path() == place_of((fs::absolute(output, ignored).parent_path()).string())) return;
  throw Error(Code::usage,
              "the output is a link into another folder, and its weights cannot be stored next to both: " + output,
              "name the file itself, " + file, place);
}

// Refuses to replace a file that the command reads.
void refuse_needed(const std::string& target, const ModelOutput& output) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(target, ignored))) return;
  for (const std::string& needed : output.needed) {
    if (!same_file(needed, target)) continue;
    throw Error(Code::usage, "the weights would replace a file that is read: " + target,
                "choose another name for the output", {.file = output.path, .stage = "write"});
  }
}

}  // namespace

void DataFiles::add(std::string_view location, std::string_view offset, std::string_view length) {
  const auto begin = parse_data_number(offset.empty() ? "0" : offset);
  const auto size = parse_data_number(length.empty() ? "0" : length);
  if (!begin || !size || *size > std::numeric_limits<std::uint64_t>::max() - *begin) {
    throw Error(Code::corrupt_file,
                "a tensor in " + std::string(location) + " has an invalid range: offset '" + std::string(offset) +
                    "', length '" + std::string(length) + "'",
                "export the model again", {.file = std::string(location)});
  }
  std::uint64_t& last = locations[std::string(location)];
  last = std::max(last, *begin + *size);
}

Locations parse_former(std::string_view text) {
  Locations former;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return former;
  for (const auto& [location, before] : json.items()) {
    if (before.is_string()) former[location] = before.get<std::string>();
  }
  return former;
}

DataFiles data_files_of(const OnnxSummary& model) {
  DataFiles files;
  walk_tensors(model, [&](const OnnxTensor& tensor) {
    if (!tensor.external) return;
    const auto property = [&](const char* key) { return find_property(tensor.external_data, key).value_or(""); };
    files.add(property("location"), property("offset"), property("length"));
  });
  files.former = parse_former(find_property(model.metadata, keys::data_files).value_or(""));
  return files;
}

AtomicFile& add_new_data_file(const std::string& target, const ModelOutput& output, OutputFiles& files) {
  const Place place{.file = output.path, .stage = "write"};
  refuse_link_to_another_folder(output.path, place);
  files.require_new(target);
  refuse_needed(target, output);
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(target, ignored);
  // A link is neither kept nor replaced: it points to another file, and runtimes do not read weights through links.
  if (fs::exists(status) && (!output.overwrite || !fs::is_regular_file(status))) {
    throw Error(Code::cannot_write,
                "the weights of " + output.path + " go into " + target + ", which exists with other content",
                fs::is_regular_file(status)
                    ? "choose another name for the output, or pass --overwrite to replace that file"
                    : "choose another name for the output, or remove that link or folder",
                place);
  }
  AtomicFile& file = files.add(target);
  if (!output.overwrite) file.require_new_target();
  return file;
}

AtomicFile* add_data_file(const std::string& data, const std::string& target, const ModelOutput& output,
                          OutputFiles& files) {
  refuse_link_to_another_folder(output.path, {.file = output.path, .stage = "write"});
  files.require_new(target);
  refuse_needed(target, output);
  if (std::error_code ignored; fs::exists(fs::symlink_status(target, ignored))) {
    if (const auto identity = FileIdentity::of(target); identity && same_content(data, target)) {
      files.rely_on(target, *identity);
      return nullptr;
    }
  }
  return &add_new_data_file(target, output, files);
}

CarriedData::CarriedData(const DataFiles& files, const std::string& model, const ModelOutput& output, bool restore)
    : model_(model), output_(output), former_(files.former) {
  const Place place{.file = model, .stage = "write"};
  std::vector<std::string> copied;
  for (const auto& [location, end] : files.locations) {
    const DataFile data = find_data_file(model, location);
    if (data.fault == DataFault::unnamed || data.fault == DataFault::outside) {
      require_data_file(model, location, place);
    }
    if (same_file(data.path, output.path)) {
      throw Error(Code::usage, "the output is a data file of the model: " + output.path, "name another file with -o",
                  place);
    }
    if (output.draft) continue;
    if (stays(location)) {
      if (const auto identity = FileIdentity::of(data.path.string())) kept_.emplace(data.path.string(), *identity);
      continue;
    }
    require_data_file(model, location, place);
    if (std::error_code ignored; fs::exists(output.path, ignored) && !fs::is_regular_file(output.path, ignored)) {
      throw Error(Code::usage, "the weights in " + location + " cannot be stored next to " + output.path,
                  "name a file as the output", place);
    }
    if (data.size < end) {
      throw Error(Code::truncated_file,
                  "the data file " + location + " has " + std::to_string(data.size) + " bytes, but its tensors need " +
                      std::to_string(end),
                  "copy or download the data file again", place);
    }
    copied.push_back(location);
  }
  report_shared();
  text::UniqueNames unique;
  unique.claim(base_name(output.path));
  for (const std::string& location : copied) {
    const auto known = files.former.find(location);
    const std::string former = known == files.former.end() ? location : known->second;
    const bool restored = restore && is_available(former, in_folder_of(model, location));
    new_names_[location] = unique.claim(restored ? former : new_name(location, copied.size() == 1));
    former_.erase(location);
    if (new_names_[location] != former) former_[new_names_[location]] = former;
  }
}

void CarriedData::report_shared() const {
  if (output_.notes == nullptr || kept_.empty() || same_file(model_, output_.path)) return;
  const std::string first = base_name(kept_.begin()->first);
  const std::string more = kept_.size() > 1 ? " and " + std::to_string(kept_.size() - 1) + " more" : "";
  Diagnostic shared =
      note(Code::usage,
           "weights are not copied: " + output_.path + " refers to " + first + more + ", as " + model_ + " does",
           {.file = output_.path, .stage = "write"});
  shared.remedy = "use --copy-data to give the output its own files";
  output_.notes->push_back(std::move(shared));
}

std::string CarriedData::former() const { return former_.empty() ? "" : json_text(nlohmann::json(former_)); }

// Returns true if `location`, a name from the file, can be used for the data: it is inside the output's folder, and
// free or of the same content.
bool CarriedData::is_available(const std::string& location, const std::string& data) const {
  const DataFile there = find_data_file(output_.path, location);
  std::error_code ignored;
  if (there.fault == DataFault::none) return !output_.copy_data && same_content(data, there.path.string());
  return there.fault == DataFault::missing && !fs::is_symlink(there.path, ignored) &&
         fs::is_directory(there.path.has_parent_path() ? there.path.parent_path() : ".", ignored);
}

bool CarriedData::stays(const std::string& location) const {
  if (output_.copy_data && !same_file(model_, output_.path)) return false;
  const DataFile there = find_data_file(output_.path, location);
  return there.fault != DataFault::outside && same_file(find_data_file(model_, location).path, there.path);
}

std::string CarriedData::new_name(const std::string& location, bool only_one) const {
  const std::string model = base_name(model_), output = base_name(output_.path);
  std::string name = location;
  std::ranges::replace(name, '/', '_');
  const bool begins_with_model = name.starts_with(model) && name.size() > model.size();
  if (begins_with_model && std::string_view("._-").find(name[model.size()]) != std::string_view::npos) {
    return output + name.substr(model.size());
  }
  return output + (only_one ? ".data" : "." + name);
}

void CarriedData::add_to(OutputFiles& files) const {
  for (const auto& [file, identity] : kept_) files.rely_on(file, identity);
  for (const auto& [location, name] : new_names_) {
    const std::string data = in_folder_of(model_, location), target = in_folder_of(output_.path, name);
    if (AtomicFile* const file = add_data_file(data, target, output_, files)) file->copy(data);
  }
}

}  // namespace whence::onnx_file
