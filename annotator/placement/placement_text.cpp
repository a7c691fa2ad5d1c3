// Prints placements as text and as JSON.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "annotator/placement/placement.h"
#include "annotator/text/table.h"
#include "schema/json_text.h"

namespace whence::placement {

namespace {

using text::Align;
using Json = nlohmann::ordered_json;

constexpr std::size_t max_differences_shown = 20;

std::string milliseconds(std::int64_t microseconds) {
  std::string number(32, '\0');
  number.resize(static_cast<std::size_t>(
      std::snprintf(number.data(), number.size(), "%.3f", static_cast<double>(microseconds) / 1000)));
  return number;
}

bool has_times(const Placement& placement) {
  return std::ranges::any_of(placement.shares, [](const DeviceShare& share) { return share.microseconds.has_value(); });
}

std::string shares_text(const Placement& placement) {
  const bool times = has_times(placement);
  std::vector<Align> columns = {Align::left, Align::right, Align::right, Align::right, Align::right};
  text::Table table({}, columns);
  std::vector<std::string> titles = {"device", "nodes", "weights", "bytes"};
  if (times) titles.emplace_back("ms a run");
  table.header(titles);
  for (const DeviceShare& share : placement.shares) {
    std::vector<text::Cell> cells = {share.device, text::grouped(share.nodes), text::grouped(share.weights),
                                     text::grouped(share.weight_bytes)};
    if (times) cells.emplace_back(milliseconds(share.microseconds.value_or(0)));
    table.row(cells);
  }
  if (placement.unattributed_microseconds > 0) {
    table.row({"(no device known)", "", "", "", milliseconds(placement.unattributed_microseconds)});
  }
  return table.text();
}

std::string comparison_text(const Comparison& compared) {
  const std::size_t count = compared.differences.size();
  std::string text = "nodes in ONNX Runtime: " + std::to_string(compared.as_placed) + " as placed, " +
                     std::to_string(count) + " elsewhere, " + std::to_string(compared.not_listed) + " not listed";
  if (compared.unknown_device > 0) text += ", " + std::to_string(compared.unknown_device) + " on unknown devices";
  text += "\n";
  if (count == 0) return text;
  text::Table table({}, {Align::left, Align::left, Align::left, Align::left}, "  ");
  table.header({"node", "module", "device", "provider"});
  for (std::size_t i = 0; i < std::min(count, max_differences_shown); ++i) {
    const Difference& each = compared.differences[i];
    table.row({each.node, each.module, each.device, each.provider});
  }
  text += table.text();
  if (count > max_differences_shown)
    text += "  and " + std::to_string(count - max_differences_shown) + " more: --json lists them\n";
  return text;
}

}  // namespace

std::string to_text(const Placement& placement) {
  std::string text = shares_text(placement);
  for (const Crossing& each : placement.crossings) {
    text += std::to_string(each.values) + (each.values == 1 ? " value crosses" : " values cross") + " from " +
            each.from + " to " + each.to + "\n";
  }
  if (placement.of_several > 0) {
    text += std::to_string(placement.of_several) +
            " nodes belong to modules of several devices; the module of the main operation decides\n";
  }
  text += "session.layer_assignment_settings: " + placement.settings + "\n";
  return placement.compared ? text + comparison_text(*placement.compared) : text;
}

std::string to_json(const Placement& placement) {
  Json shares = Json::array(), crossings = Json::array();
  for (const DeviceShare& each : placement.shares) {
    shares.push_back({{"device", each.device},
                      {"nodes", each.nodes},
                      {"weights", each.weights},
                      {"bytes", each.weight_bytes},
                      {"microseconds", or_null(each.microseconds)}});
  }
  for (const Crossing& each : placement.crossings) {
    crossings.push_back({{"from", each.from}, {"to", each.to}, {"values", each.values}});
  }
  Json object = {{"devices", shares},
                 {"crossings", crossings},
                 {"of_several_devices", placement.of_several},
                 {"settings", placement.settings}};
  if (has_times(placement)) object["unattributed_microseconds"] = placement.unattributed_microseconds;
  if (placement.compared) {
    Json differences = Json::array();
    for (const Difference& each : placement.compared->differences) {
      differences.push_back(
          {{"node", each.node}, {"module", each.module}, {"device", each.device}, {"provider", each.provider}});
    }
    object["assigned"] = {{"as_placed", placement.compared->as_placed},
                          {"not_listed", placement.compared->not_listed},
                          {"unknown_device", placement.compared->unknown_device},
                          {"differences", differences}};
  }
  return json_text(object, 2);
}

}  // namespace whence::placement
