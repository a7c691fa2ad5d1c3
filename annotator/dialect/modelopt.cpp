// Writes NVIDIA modelopt's nodes_to_exclude: regular expressions that re.match compares with names of the outermost
// graph. A plain name would match every name that begins with it, and a name with a bracket would match none.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "annotator/dialect/regex_escape.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

std::string write_patterns(const Choice& choice) {
  nlohmann::ordered_json patterns = nlohmann::ordered_json::array();
  for (const std::string& name : names_of(choice)) patterns.push_back(regex_escaped(name) + "\\Z");
  return json_text(nlohmann::ordered_json{{"nodes_to_exclude", patterns}}, 2) + "\n";
}

}  // namespace

const Dialect modelopt_dialect = {
    "modelopt", "patterns for modelopt.onnx.quantization, JSON", Bodies::unseen, {}, nullptr, write_patterns};

}  // namespace whence::dialect
