#include "annotator/profile/qnn.h"

#include <algorithm>

#include "annotator/profile/csv_rows.h"

namespace whence::profile {
namespace {

struct NodeRow {
  std::string identifier, sources;
  std::int64_t time = 0;
  bool microseconds = false;
};

// Returns "Conv_1" for "Conv_1:OpId_7 (cycles)".
std::string name_in(const std::string& identifier) { return identifier.substr(0, identifier.find(":OpId_")); }

std::vector<std::string> split_sources(std::string_view sources) {
  std::vector<std::string> names;
  while (!sources.empty()) {
    const std::size_t end = std::min(sources.find(';'), sources.size());
    if (end > 0) names.emplace_back(sources.substr(0, end));
    sources.remove_prefix(std::min(end + 1, sources.size()));
  }
  return names;
}

bool recognises_qnn_profile(const ProfileInput& input) {
  return input.first_line.find("Msg Timestamp") != std::string_view::npos &&
         input.first_line.find("Event Identifier") != std::string_view::npos;
}

std::vector<NodeRow> read_node_rows(const ProfileInput& input) {
  std::vector<NodeRow> found;
  CsvRows rows(input.text(), ',');
  while (rows.next()) {
    if (rows.at("Message") != "NODE") continue;
    const std::string unit = rows.at("Unit of Measurement").value_or("");
    if (unit != "CYCLES" && unit != "US") continue;
    const auto time = amount_in(rows.at("Time").value_or(""));
    const auto identifier = rows.at("Event Identifier");
    if (!time || !identifier) {
      corrupt_profile("row " + std::to_string(rows.row()) + " has no time or no identifier",
                      "profile the session again", input.place);
    }
    std::string sources = rows.at("Original ONNX Source Ops").value_or("");
    if (sources.empty()) sources = rows.at("ONNX Source Ops").value_or("");
    found.push_back({*identifier, std::move(sources), *time, unit == "US"});
  }
  return found;
}

RuntimeProfile read_qnn_profile(const ProfileInput& input, const ReadOptions& options) {
  std::vector<NodeRow> rows = read_node_rows(input);
  if (rows.empty()) {
    throw Error(Code::wrong_kind, "the profile has no NODE rows, as with profiling_level basic",
                "set profiling_level to detailed", input.place);
  }
  const bool microseconds = std::ranges::any_of(rows, &NodeRow::microseconds);
  std::erase_if(rows, [&](const NodeRow& row) { return row.microseconds != microseconds; });
  // Each run appends its rows; the n-th row of an identifier belongs to the n-th run.
  std::map<std::string, std::int64_t> runs_of;
  std::int64_t runs = 0;
  for (const NodeRow& row : rows) runs = std::max(runs, ++runs_of[row.identifier]);
  const std::int64_t warmup = options.warmup_runs.value_or(runs > 1 ? 1 : 0);
  if (warmup >= runs) {
    throw Error(Code::usage, "the profile has " + std::to_string(runs) + " runs, all of them warm-up",
                "use a smaller --warmup", input.place);
  }
  RuntimeProfile profile;
  profile.unit = microseconds ? Unit::microseconds : Unit::cycles;
  profile.runs = runs - warmup;
  profile.warmup_runs = warmup;
  AmountSum sum(input.place);
  std::map<std::string, std::size_t> known;
  std::map<std::string, std::int64_t> seen;
  for (const NodeRow& row : rows) {
    if (++seen[row.identifier] <= warmup) continue;
    const std::string name = name_in(row.identifier);
    const auto [at, is_new] = known.try_emplace(name, profile.layers.size());
    if (is_new) profile.layers.push_back({.name = name});
    Layer& to = profile.layers[at->second];
    ++to.count;
    to.amount += sum.add(row.time);
    if (to.holds.empty()) to.holds.names = split_sources(row.sources);
  }
  return profile;
}

bool recognises_qnn_trace(const ProfileInput& input) { return input.json && input.json->find("subgraph_traces"); }

std::vector<std::string> operators_in(const JsonValue& mapping, std::string_view key) {
  std::vector<std::string> names;
  for (const JsonValue source : elements_at(mapping, key)) {
    const std::string_view name = text_at(source, "name");
    if (text_at(source, "type") == "OP" && !name.empty()) names.emplace_back(name);
  }
  return names;
}

LayerNames read_qnn_trace(const ProfileInput& input, const RuntimeProfile&) {
  LayerNames names;
  for (const JsonValue subgraph : elements_at(*input.json, "subgraph_traces")) {
    for (const JsonValue mapping : elements_at(subgraph, "op_mappings")) {
      const std::string name(text_at(mapping, "dst_name"));
      if (name.empty()) continue;
      LayerFacts& facts = names[name];
      facts.op_type = text_at(mapping, "dst_qnn_op_type");
      facts.holds.names = operators_in(mapping, "original_sources");
      if (facts.holds.empty()) facts.holds.names = operators_in(mapping, "sources");
    }
  }
  return names;
}

}  // namespace

const ProfileReader qnn_profile_reader = {"qnn", "profile of QNN", recognises_qnn_profile, read_qnn_profile};
const ProfileReader qnn_trace_reader = {"qnn-trace", "operator trace of QNN", recognises_qnn_trace,
                                        nullptr,     read_qnn_trace,          qnn_profile_reader.name};

}  // namespace whence::profile
