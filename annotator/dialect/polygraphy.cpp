// Writes Polygraphy's --layer-precisions: arguments "name:float32", split at the last colon. argparse reads a leading
// '-' as an option. Polygraphy only warns about a layer that it does not find. TensorRT 11
// takes types from the network and has no precisions of layers.
#include "annotator/dialect/dialect.h"

namespace whence::dialect {

namespace {

std::string polygraphy_refusal(const view::SelectedNode& node, const Choice&) {
  if (node.name.starts_with('-')) return "has a name that begins with '-', which Polygraphy reads as an option";
  return node.name.find('\n') == std::string::npos ? "" : "has a line break in its name";
}

std::string write_arguments(const Choice& choice) {
  std::string text = "--precision-constraints\nobey\n--layer-precisions\n";
  for (const std::string& name : names_of(choice)) text += name + ":" + choice.setting + "\n";
  return text;
}

}  // namespace

const Dialect polygraphy_dialect = {
    "polygraphy",
    "--layer-precisions of Polygraphy with TensorRT 8 to 10, one argument per line",
    Bodies::unseen,
    {"float32", "float16", "bfloat16", "int8", "fp8", "int4", "int32", "int64", "uint8", "bool"},
    polygraphy_refusal,
    write_arguments,
    nullptr,
    "TensorRT 11 has no precisions of layers; for 11, write --format modelopt-autocast"};

}  // namespace whence::dialect
