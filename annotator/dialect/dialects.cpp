// Lists all dialects.
#include <set>

#include "annotator/dialect/dialect.h"

namespace whence::dialect {

const std::vector<const Dialect*>& all_dialects() {
  static const std::vector<const Dialect*> dialects = {
      &names_dialect,          &modules_dialect,     &ort_quant_dialect,         &olive_dialect,
      &trt_precisions_dialect, &trt_devices_dialect, &polygraphy_dialect,        &nncf_dialect,
      &nncf_openvino_dialect,  &modelopt_dialect,    &modelopt_autocast_dialect, &graphsurgeon_dialect,
  };
  return dialects;
}

const Dialect& find_dialect(const std::string& name) {
  for (const Dialect* dialect : all_dialects()) {
    if (dialect->name == name) return *dialect;
  }
  throw Error(Code::usage, "unknown format '" + name + "'", "`whence select --help` lists the formats",
              {.stage = "command line"});
}

std::vector<std::string> names_of(const Choice& choice, std::string (*renamed)(const view::SelectedNode& node)) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && seen.insert(name).second) names.push_back(name);
  };
  for (const view::SelectedNode& node : choice.nodes) {
    add(node.name);
    if (renamed != nullptr) add(renamed(node));
  }
  return names;
}

}  // namespace whence::dialect
