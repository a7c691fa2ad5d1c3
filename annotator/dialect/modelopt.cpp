// Writes keyword arguments for NVIDIA modelopt: patterns for the nodes that its quantisation leaves out
// (modelopt.onnx.quantization), or that its conversion to mixed precision keeps in a type (modelopt.onnx.autocast).
// Both use re.match on names of the outermost graph: a plain name would match every name that begins with it, and a
// name with a bracket would match none. AutoCast converts each node that no rule excludes; nodes_to_include overrides
// its rules on value ranges.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "annotator/dialect/regex_escape.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

using Json = nlohmann::ordered_json;

Json patterns_of(const Choice& choice) {
  Json patterns = Json::array();
  for (const std::string& name : names_of(choice)) patterns.push_back(regex_escaped(name) + "\\Z");
  return patterns;
}

std::string write_quantisation(const Choice& choice) {
  return json_text(Json{{"nodes_to_exclude", patterns_of(choice)}}, 2) + "\n";
}

std::string write_autocast(const Choice& choice) {
  Json arguments = {{"nodes_to_exclude", patterns_of(choice)}};
  if (choice.setting != "fp32") {
    arguments = {{"low_precision_type", choice.setting}, {"nodes_to_include", patterns_of(choice)}};
  }
  return json_text(arguments, 2) + "\n";
}

}  // namespace

const Dialect modelopt_dialect = {
    "modelopt", "patterns for modelopt.onnx.quantization, JSON", Bodies::unseen, {}, nullptr, write_quantisation};
const Dialect modelopt_autocast_dialect = {
    "modelopt-autocast", "patterns for modelopt.onnx.autocast, JSON", Bodies::unseen, {"fp32", "fp16", "bf16"}, nullptr,
    write_autocast};

}  // namespace whence::dialect
