#include "annotator/annotation/value_pairs.h"

#include <nlohmann/json.hpp>

#include "schema/files/files.h"
#include "schema/program_walk.h"
#include "schema/sidecar/sidecar.h"

namespace whence::annotation {
namespace {

using Json = nlohmann::json;

constexpr std::string_view format = "whence-value-pairs";

[[noreturn]] void refuse(Code code, const std::string& why, const std::string& remedy, const std::string& path) {
  throw Error(code, why, remedy, {.file = path, .stage = "read"});
}

// Returns the entry if it is a number from 0 to count - 1, else nullopt.
std::optional<std::size_t> index_in(const Json& pair, const char* name, std::size_t count) {
  const auto found = pair.find(name);
  if (found == pair.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto index = found->get<std::uint64_t>();
  return index < count ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
}

}  // namespace

std::vector<match::EqualValue> read_value_pairs(const std::string& path, const Program& program) {
  const auto file = MappedFile::open(path);
  const auto json = Json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  const bool is_value_pairs = json.is_object() && json.value("format", Json()) == format;
  const Json version = is_value_pairs ? json.value("version", Json()) : Json();
  if (version.is_number_unsigned() && version > 1) {
    refuse(Code::newer_version, "the value pairs have version " + version.dump() + "; this whence reads version 1",
           "install a newer whence", path);
  }
  if (version != 1 || !json.contains("pairs") || !json["pairs"].is_array()) {
    refuse(Code::wrong_kind, "the file contains no value pairs",
           "find them with `whence annotate --values model.values.safetensors`", path);
  }
  if (json.value("program", Json()) != program_digest(program)) {
    refuse(Code::sidecar_mismatch, "the pairs and the sidecar belong to different recordings",
           "pass the sidecar that they were found with", path);
  }
  const std::vector<const Node*> all = operations(program);
  std::vector<match::EqualValue> pairs;
  for (const Json& pair : json["pairs"]) {
    const auto operation = pair.is_object() ? index_in(pair, "operation", all.size()) : std::nullopt;
    const auto output = operation ? index_in(pair, "output", all[*operation]->outputs.size()) : std::nullopt;
    if (!output || !pair.contains("value") || !pair["value"].is_string()) {
      refuse(Code::corrupt_file, "pair " + std::to_string(pairs.size()) + " names no result of the recorded program",
             "find the pairs again", path);
    }
    pairs.push_back({pair["value"].get<std::string>(), match::UnitIndex(static_cast<std::int32_t>(*operation)),
                     all[*operation]->outputs[*output]});
  }
  return pairs;
}

}  // namespace whence::annotation
