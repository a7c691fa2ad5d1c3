#include "annotator/app/validate_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "schema/files/files.h"

namespace whence::app {
namespace {

std::vector<std::string> strings(const nlohmann::json& value, const std::string& key, const Place& place) {
  const bool fits = value.is_array() && std::ranges::all_of(value, [](const auto& each) { return each.is_string(); });
  if (!fits)
    throw Error(Code::wrong_kind, "'" + key + "' is not a list of strings", "write \"" + key + "\": [\"...\"]", place);
  return value.get<std::vector<std::string>>();
}

}  // namespace

ValidateOptions read_validate_config(const std::string& path) {
  const Place place{.file = path, .stage = "command line"};
  const auto file = MappedFile::open(path);
  const auto json = nlohmann::json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw Error(Code::wrong_kind, "the file is not a JSON object", "write for example {\"min\": [\"covered=99\"]}",
                place);
  ValidateOptions options;
  for (const auto& [key, value] : json.items()) {
    if (key == "min") {
      options.minima = strings(value, key, place);
    } else if (key == "require") {
      options.required = strings(value, key, place);
    } else if (key == "allow") {
      options.allowed = strings(value, key, place);
    } else if (key == "tolerance") {
      options.tolerances = strings(value, key, place);
    } else if (key == "baseline" && value.is_string()) {
      options.baseline = (std::filesystem::path(path).parent_path() / value.get<std::string>()).string();
    } else if (key == "attested" && value.is_string()) {
      options.attested = (std::filesystem::path(path).parent_path() / value.get<std::string>()).string();
    } else {
      throw Error(Code::wrong_kind, "unknown setting '" + key + "'",
                  "the settings are min, require, allow, tolerance, baseline and attested", place);
    }
  }
  return options;
}

}  // namespace whence::app
