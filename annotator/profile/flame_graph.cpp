// Writes a profile as stacks, from the root module down to the operator, in two formats: collapsed stacks, speedscope.
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "annotator/profile/module_profile.h"
#include "annotator/view/tree_text.h"
#include "schema/json_text.h"
#include "schema/printable.h"

namespace whence::profile {
namespace {

using Stack = std::vector<std::string>;

// Returns the frames, outermost first. The layer's own module has the call number, except for the first call.
Stack stack_of(const ModuleProfile& profile, const ProfiledLayer& layer) {
  const LayerModules& modules = layer.modules;
  const std::string& leaf =
      layer.runtime_layer.op_type.empty() ? layer.runtime_layer.name : layer.runtime_layer.op_type;
  if (!modules.row) return {"(no module known)", leaf};
  Stack stack;
  for (std::optional<std::size_t> at = modules.row; at; at = profile.tree.rows[*at].parent) {
    const std::string& path = profile.tree.rows[*at].path;
    std::string frame = path.empty() ? "model" : path.substr(path.rfind('.') + 1);
    if (at == modules.row && !modules.call.empty() && modules.call != "0") frame += "#" + modules.call;
    stack.insert(stack.begin(), std::move(frame));
  }
  stack.push_back(leaf);
  return stack;
}

// Sums the amounts of equal stacks; sorted.
std::map<Stack, std::int64_t> stacks_of(const ModuleProfile& profile) {
  std::map<Stack, std::int64_t> stacks;
  for (const ProfiledLayer& layer : profile.layers) stacks[stack_of(profile, layer)] += layer.runtime_layer.amount;
  return stacks;
}

// Returns the unit in speedscope's format, which has none for cycles and nodes.
std::string_view speedscope_unit(Unit unit) {
  return unit == Unit::microseconds || unit == Unit::bytes ? name_of(unit) : "none";
}

}  // namespace

std::string to_collapsed(const ModuleProfile& profile) {
  std::string text;
  for (const auto& [stack, time] : stacks_of(profile)) {
    std::string line;
    for (const std::string& frame : stack) {
      std::string clean = printable(frame);
      std::replace(clean.begin(), clean.end(), ';', ',');  // ';' separates frames
      line += (line.empty() ? "" : ";") + clean;
    }
    text += line + " " + std::to_string(time) + "\n";
  }
  return text;
}

std::string to_speedscope(const ModuleProfile& profile) {
  using Json = nlohmann::ordered_json;
  std::unordered_map<std::string, std::size_t> numbers;
  Json frames = Json::array(), samples = Json::array(), weights = Json::array();
  for (const auto& [stack, time] : stacks_of(profile)) {
    Json sample = Json::array();
    for (const std::string& frame : stack) {
      const auto [entry, is_new] = numbers.try_emplace(frame, numbers.size());
      if (is_new) frames.push_back({{"name", printable(frame)}});
      sample.push_back(entry->second);
    }
    samples.push_back(std::move(sample));
    weights.push_back(time);
  }
  const Json sampled = {{"type", "sampled"},
                        {"name", profile.file},
                        {"unit", speedscope_unit(profile.unit)},
                        {"startValue", 0},
                        {"endValue", profile.amount},
                        {"samples", std::move(samples)},
                        {"weights", std::move(weights)}};
  const Json json = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                     {"name", profile.file},
                     {"activeProfileIndex", 0},
                     {"exporter", std::string("whence ") + WHENCE_VERSION},
                     {"shared", {{"frames", std::move(frames)}}},
                     {"profiles", Json::array({sampled})}};
  return json_text(json) + "\n";
}

}  // namespace whence::profile
