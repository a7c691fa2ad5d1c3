#include "annotator/profile/ort_assignment.h"

#include <algorithm>

namespace whence::profile {
namespace {

bool is_assignment(const nlohmann::json& entry) {
  if (!entry.is_object() || text_at(entry, "provider").empty()) return false;
  const auto nodes = entry.find("nodes");
  return nodes != entry.end() && nodes->is_array();
}

bool recognises_assignment(const ProfileInput& input) {
  return input.json && input.json->is_array() && !input.json->empty() &&
         std::ranges::all_of(*input.json, is_assignment);
}

RuntimeProfile read_assignment(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  profile.unit = Unit::nodes;
  profile.runs = 1;
  profile.averaged = true;
  for (const nlohmann::json& entry : *input.json) {
    for (const nlohmann::json& node : entry.at("nodes")) {
      profile.layers.push_back({.name = text_at(node, "name"),
                                .op_type = text_at(node, "op_type"),
                                .provider = text_at(entry, "provider"),
                                .count = 1,
                                .amount = 1});
    }
  }
  if (profile.layers.empty()) {
    throw Error(Code::wrong_kind, "no node of the file is assigned to a provider",
                "set session.record_ep_graph_assignment_info to 1", input.place);
  }
  return profile;
}

}  // namespace

const ProfileReader ort_assignment_reader = {"onnxruntime-providers", "list of ONNX Runtime's providers",
                                             recognises_assignment, read_assignment};

}  // namespace whence::profile
