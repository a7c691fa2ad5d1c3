#include "annotator/profile/ort_assignment.h"

#include <algorithm>

namespace whence::profile {
namespace {

bool is_assignment(const JsonValue& entry) {
  const auto nodes = entry.find("nodes");
  return !text_at(entry, "provider").empty() && nodes && nodes->is_array();
}

bool recognises_assignment(const ProfileInput& input) {
  return input.json && input.json->is_array() && input.json->size() > 0 &&
         std::ranges::all_of(elements(*input.json), is_assignment);
}

RuntimeProfile read_assignment(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  profile.unit = Unit::nodes;
  profile.runs = 1;
  profile.averaged = true;
  for (const JsonValue entry : elements(*input.json)) {
    for (const JsonValue node : elements_at(entry, "nodes")) {
      profile.layers.push_back({.name = std::string(text_at(node, "name")),
                                .op_type = std::string(text_at(node, "op_type")),
                                .provider = std::string(text_at(entry, "provider")),
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
