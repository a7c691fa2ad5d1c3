#include "annotator/profile/openvino_runtime_model.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <unordered_map>

#include <expat.h>

namespace whence::profile {
namespace {

const std::string serialise_again =
    "compile the model with PERF_COUNT, run inference, and serialize get_runtime_model() completely";

struct OpenvinoLayer {
  Layer layer;
  std::string id;
  std::int64_t order = 0;
};

// The state that the parser's callbacks fill. It stores exceptions, which must not pass through the parser's C code.
struct RuntimeModel {
  explicit RuntimeModel(const Place& place) : sum(place), place(place) {}

  AmountSum sum;
  const Place& place;
  std::vector<OpenvinoLayer> layers;
  std::vector<std::pair<std::string, std::string>> edges;
  std::size_t depth = 0;
  bool in_layer = false, any_time = false;
  XML_Parser parser = nullptr;
  std::exception_ptr error;
};

std::string_view attribute(const XML_Char** attributes, std::string_view name) {
  for (; *attributes != nullptr; attributes += 2) {
    if (name == attributes[0]) return attributes[1];
  }
  return {};
}

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> all;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    if (end > 0) all.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return all;
}

void read_data(RuntimeModel& model, const XML_Char** attributes) {
  OpenvinoLayer& to = model.layers.back();
  to.layer.holds.names = split_names(attribute(attributes, "originalLayersNames"));
  to.order = amount_in(attribute(attributes, "execOrder")).value_or(0);
  const std::string_view time = attribute(attributes, "execTimeMcs");
  if (time.empty() || time == "not_executed") return;
  const auto amount = amount_in(time);
  if (!amount) {
    corrupt_profile("execTimeMcs of layer " + to.layer.name + " is not a time", serialise_again, model.place);
  }
  to.layer.count = 1;
  to.layer.amount = model.sum.add(*amount);
  model.any_time = true;
}

// Reads only net/layers/layer/data and net/edges/edge. Bodies of loops have nested nets, which are ignored.
void read_element(RuntimeModel& model, std::string_view element, const XML_Char** attributes) {
  if (model.depth == 2 && element == "layer") {
    model.in_layer = true;
    OpenvinoLayer& to = model.layers.emplace_back();
    to.id = attribute(attributes, "id");
    to.layer.name = attribute(attributes, "name");
    to.layer.op_type = attribute(attributes, "type");
  } else if (model.depth == 2 && element == "edge") {
    model.edges.emplace_back(attribute(attributes, "from-layer"), attribute(attributes, "to-layer"));
  } else if (model.depth == 3 && model.in_layer && element == "data") {
    read_data(model, attributes);
  }
}

void XMLCALL start_element(void* data, const XML_Char* element, const XML_Char** attributes) {
  RuntimeModel& model = *static_cast<RuntimeModel*>(data);
  try {
    read_element(model, element, attributes);
    ++model.depth;
  } catch (...) {
    model.error = std::current_exception();
    XML_StopParser(model.parser, XML_FALSE);
  }
}

void XMLCALL end_element(void* data, const XML_Char*) {
  RuntimeModel& model = *static_cast<RuntimeModel*>(data);
  --model.depth;
  if (model.depth <= 2) model.in_layer = false;
}

// Refuses document types: a runtime model has none, and entities could expand without bound.
void XMLCALL start_doctype(void* data, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  RuntimeModel& model = *static_cast<RuntimeModel*>(data);
  model.error = std::make_exception_ptr(Error(Code::wrong_kind, "the XML file declares a document type",
                                              "pass a runtime model of OpenVINO", model.place));
  XML_StopParser(model.parser, XML_FALSE);
}

// Expat 2.9 deprecates the position functions that return a long.
#if XML_MAJOR_VERSION > 2 || (XML_MAJOR_VERSION == 2 && XML_MINOR_VERSION >= 9)
std::int64_t byte_index(XML_Parser parser) { return XML_GetCurrentByteIndex64(parser); }
std::uint64_t line_number(XML_Parser parser) { return XML_GetCurrentLineNumber64(parser); }
#else
std::int64_t byte_index(XML_Parser parser) { return XML_GetCurrentByteIndex(parser); }
std::uint64_t line_number(XML_Parser parser) { return XML_GetCurrentLineNumber(parser); }
#endif

void parse_model(const ProfileInput& input, RuntimeModel& model) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate(nullptr), XML_ParserFree);
  if (parser == nullptr) throw std::bad_alloc();
  model.parser = parser.get();
  XML_SetUserData(parser.get(), &model);
  XML_SetElementHandler(parser.get(), start_element, end_element);
  XML_SetStartDoctypeDeclHandler(parser.get(), start_doctype);
  constexpr std::size_t piece = 1 << 20;  // bytes; the parser takes the length as int
  std::string_view rest = input.text();
  for (bool last = false; !last;) {
    const std::string_view part = rest.substr(0, piece);
    rest.remove_prefix(part.size());
    last = rest.empty();
    const XML_Status status = XML_Parse(parser.get(), part.data(), static_cast<int>(part.size()), last);
    if (model.error) std::rethrow_exception(model.error);
    if (status == XML_STATUS_OK) continue;
    const XML_Error code = XML_GetErrorCode(parser.get());
    if (code == XML_ERROR_NO_MEMORY) throw std::bad_alloc();
    const bool cut = code == XML_ERROR_NO_ELEMENTS || code == XML_ERROR_UNCLOSED_TOKEN ||
                     (last && byte_index(parser.get()) >= static_cast<std::int64_t>(input.text().size()));
    throw Error(
        cut ? Code::truncated_file : Code::corrupt_file,
        "the file is invalid XML at line " + std::to_string(line_number(parser.get())) + ": " + XML_ErrorString(code),
        serialise_again, input.place);
  }
}

void connect(RuntimeModel& model, std::vector<Layer>& layers) {
  std::unordered_map<std::string_view, std::size_t> by_id;
  for (std::size_t i = 0; i < model.layers.size(); ++i) by_id.emplace(model.layers[i].id, i);
  for (const auto& [from, to] : model.edges) {
    const auto first = by_id.find(from), second = by_id.find(to);
    if (first == by_id.end() || second == by_id.end()) {
      corrupt_profile("an edge refers to a layer that is not in the file", serialise_again, model.place);
    }
    layers[first->second].after.push_back(second->second);
    layers[second->second].before.push_back(first->second);
  }
}

bool recognises_runtime_model(const ProfileInput& input) {
  const std::string_view head = input.text().substr(0, 4096);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head.substr(first).starts_with('<') &&
         head.find("<net") != std::string_view::npos;
}

RuntimeProfile read_runtime_model(const ProfileInput& input, const ReadOptions&) {
  RuntimeModel model(input.place);
  parse_model(input, model);
  if (!model.any_time) {
    throw Error(Code::wrong_kind, "no layer of the file has a time", serialise_again, input.place);
  }
  std::ranges::stable_sort(model.layers, {}, &OpenvinoLayer::order);
  RuntimeProfile profile;
  profile.runs = 1;
  profile.averaged = true;
  for (OpenvinoLayer& each : model.layers) profile.layers.push_back(std::move(each.layer));
  connect(model, profile.layers);
  return profile;
}

}  // namespace

const ProfileReader openvino_model_reader = {"openvino", "runtime model of OpenVINO", recognises_runtime_model,
                                             read_runtime_model};

}  // namespace whence::profile
