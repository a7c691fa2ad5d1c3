#include "annotator/merge/external_data.h"

#include <filesystem>

namespace whence {

namespace fs = std::filesystem;

namespace {

void collect(const OnnxGraph& graph, std::set<std::string>& locations) {
  const auto add = [&](const OnnxTensor& tensor) {
    if (!tensor.external) return;
    if (const auto location = find_property(tensor.external_data, "location")) locations.emplace(*location);
  };
  for (const OnnxTensor& tensor : graph.initializers) add(tensor);
  for (const OnnxNode& node : graph.nodes) {
    for (const OnnxTensor& tensor : node.tensors) add(tensor);
    for (const OnnxGraph& body : node.subgraphs) collect(body, locations);
  }
}

fs::path folder_of(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void refuse_way_out(const std::string& location, const std::string& model) {
  const fs::path path(location);
  bool leads_out = path.is_absolute();
  for (const fs::path& segment : path) leads_out |= segment == "..";
  if (!leads_out) return;
  throw Error(Code::outside_folder, "the model keeps weights outside its folder: " + location,
              "write the result into the model's own folder", {.file = model, .stage = "write"});
}

}  // namespace

std::set<std::string> external_locations(const OnnxSummary& model) {
  std::set<std::string> locations;
  collect(model.graph, locations);
  return locations;
}

void carry_external_data(const std::set<std::string>& locations, const std::string& input, const std::string& output) {
  const fs::path from = folder_of(input), to = folder_of(output);
  std::error_code ignored;
  if (fs::equivalent(from, to, ignored)) return;
  for (const std::string& location : locations) {
    refuse_way_out(location, input);
    const fs::path source = from / location, target = to / location;
    if (fs::equivalent(source, target, ignored)) continue;
    const auto data = MappedFile::open(source.string());
    AtomicFile copy(target.string());
    copy.write(data->slice(data, 0, data->size()));
    copy.commit();
  }
}

}  // namespace whence
