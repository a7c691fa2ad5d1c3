#include "annotator/profile/tensorrt.h"

#include <algorithm>

#include "annotator/profile/tensorrt_names.h"

namespace whence::profile {
namespace {

const std::string export_again = "run trtexec with --exportProfile again";

bool is_timed_layer(const JsonValue& entry) { return entry.find("name") && entry.find("timeMs"); }

bool recognises_tensorrt_profile(const ProfileInput& input) {
  return input.json && std::ranges::any_of(elements(*input.json), is_timed_layer);
}

RuntimeProfile read_tensorrt_profile(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  AmountSum sum(input.place);
  for (const JsonValue entry : elements(*input.json)) {
    if (const auto count = amount_at(entry, "count"); count && !is_timed_layer(entry)) profile.runs = *count;
    if (!is_timed_layer(entry)) continue;
    const std::string name(text_at(entry, "name"));
    const auto time = amount_at(entry, "timeMs", 1000);
    if (!time) corrupt_profile("timeMs of layer " + name + " is not a time", export_again, input.place);
    profile.layers.push_back({.name = name, .amount = sum.add(*time), .holds = nodes_of_tensorrt_name(name)});
  }
  if (profile.runs == 0) corrupt_profile("the profile has no count of its runs", export_again, input.place);
  for (Layer& layer : profile.layers) layer.count = profile.runs;
  return profile;
}

bool recognises_tensorrt_layers(const ProfileInput& input) {
  const auto layers = input.json ? input.json->find("Layers") : std::nullopt;
  return layers && layers->is_array();
}

LayerNames read_tensorrt_layers(const ProfileInput& input, const RuntimeProfile&) {
  LayerNames names;
  for (const JsonValue layer : elements_at(*input.json, "Layers")) {
    if (layer.is_string()) {
      names.try_emplace(std::string(layer.text()));
    } else if (const std::string name(text_at(layer, "Name")); !name.empty()) {
      names[name] = {nodes_of_tensorrt_metadata(text_at(layer, "Metadata")), std::string(text_at(layer, "LayerType"))};
    }
  }
  return names;
}

}  // namespace

const ProfileReader tensorrt_profile_reader = {"tensorrt", "profile of TensorRT", recognises_tensorrt_profile,
                                               read_tensorrt_profile};
const ProfileReader tensorrt_layers_reader = {"tensorrt-layers",          "layer information of TensorRT",
                                              recognises_tensorrt_layers, nullptr,
                                              read_tensorrt_layers,       tensorrt_profile_reader.name};

}  // namespace whence::profile
