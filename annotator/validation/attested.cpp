#include "annotator/validation/attested.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/statement.h"

namespace whence::validation {

using derivation::Statement;

extern const Rule attested_rule;
const Rule attested_rule = {
    "V504",
    "not_attested",
    "files that the statement is not about, or of which it leaves something unaccounted",
    "`whence attest` shows what is unaccounted and writes the statement of this file",
    "Set by --attested: the digests of the file and of its data files must be those of the statement, and each tensor "
    "and node must be accounted for. The statement itself is believed: check its signature first.",
    Severity::error};

namespace {

constexpr std::size_t max_named_modules = 3;

// The rows of a statement's table that are unaccounted.
struct Gap {
  std::int64_t rows = 0, missing = 0;
  std::set<std::string> modules = {};
};

// A row without a known verdict counts as unaccounted.
Gap gap_in(const nlohmann::ordered_json& table) {
  static const std::set<std::string, std::less<>> known = {"exact",     "bounded",  "constant", "calibrated",
                                                           "operation", "movement", "size"};
  Gap gap{.rows = static_cast<std::int64_t>(table.size())};
  for (const nlohmann::ordered_json& row : table) {
    const bool has_verdict = row.is_object() && row.contains("verdict") && row["verdict"].is_string();
    if (has_verdict && known.contains(row["verdict"].get<std::string>())) continue;
    ++gap.missing;
    if (!row.is_object() || !row.contains("modules") || !row["modules"].is_array()) continue;
    for (const nlohmann::ordered_json& module : row["modules"]) {
      if (module.is_string()) gap.modules.insert(module.get<std::string>());
    }
  }
  return gap;
}

// Returns the list under a key; an empty one if there is none.
nlohmann::ordered_json list_in(const nlohmann::ordered_json& object, const char* key) {
  return object.contains(key) && object[key].is_array() ? object[key] : nlohmann::ordered_json::array();
}

bool has_right_totals(const nlohmann::ordered_json& predicate) {
  if (!predicate.contains("totals") || !predicate["totals"].is_object()) return false;
  for (const char* table : {"tensors", "nodes"}) {
    std::map<std::string, std::int64_t> counts;
    for (const auto& row : predicate[table]) {
      if (row.is_object() && row.contains("verdict") && row["verdict"].is_string())
        ++counts[row["verdict"].get<std::string>()];
    }
    const auto& totals = predicate["totals"];
    if (!totals.contains(table) || !totals[table].is_object()) return false;
    for (const auto& [verdict, total] : totals[table].items()) {
      if (!total.is_number_integer() || total.get<std::int64_t>() != counts[verdict]) return false;
      counts.erase(verdict);
    }
    if (!counts.empty()) return false;
  }
  return true;
}

Shortfall shortfall(const Gap& gap, const std::string& what) {
  std::string message =
      std::to_string(gap.missing) + " " + what + (gap.missing == 1 ? " is" : "s are") + " unaccounted";
  const std::vector<std::string> modules(gap.modules.begin(), gap.modules.end());
  for (std::size_t i = 0; i < std::min(modules.size(), max_named_modules); ++i) {
    message += (i == 0 ? " in " : ", ") + (modules[i].empty() ? "(root)" : modules[i]);
  }
  if (modules.size() > max_named_modules) message += " and more";
  const double reached = 100 * static_cast<double>(gap.rows - gap.missing) / static_cast<double>(gap.rows);
  return {&attested_rule, "", "attested " + what + "s", 100, reached, gap.missing, modules, message, false};
}

}  // namespace

std::vector<Shortfall> attested_shortfalls(const std::string& path, const onnx_file::OnnxSummary& model,
                                           const std::string& statement) {
  const Statement stated = Statement::read(statement);
  if (const auto difference = stated.difference(derivation::digests_of(path, model))) {
    return {{&attested_rule, "", "attested files", 100, 0, std::nullopt, {}, *difference, false}};
  }
  std::vector<Shortfall> shortfalls;
  const auto add = [&](const std::string& what, const std::string& message) {
    shortfalls.push_back({&attested_rule, "", "attested " + what, 100, 0, std::nullopt, {}, message, false});
  };
  const Gap tensors = gap_in(stated.predicate["tensors"]), nodes = gap_in(stated.predicate["nodes"]);
  const bool lists_all = tensors.rows == std::ssize(derivation::FileTensors(model).all()) &&
                         nodes.rows == std::ssize(onnx_file::all_nodes(model.graph));
  if (!lists_all) add("rows", "the statement does not list each tensor and node of the file");
  if (!has_right_totals(stated.predicate)) add("totals", "the statement's totals are not those of its rows");
  if (tensors.missing > 0) shortfalls.push_back(shortfall(tensors, "tensor"));
  if (nodes.missing > 0) shortfalls.push_back(shortfall(nodes, "node"));
  const auto& predicate = stated.predicate;
  std::int64_t absent = 0;
  for (const auto& row : list_in(predicate, "absent")) absent += row.is_object() && row.contains("has_effect") ? 1 : 0;
  if (absent > 0) add("parameters", "the file does not hold " + std::to_string(absent) + " parameters of the program");
  if (!list_in(predicate, "differences").empty()) add("results", "the file has other results than the program");
  if (!predicate.contains("numbers") || predicate["numbers"].is_null()) return shortfalls;
  const auto& numbers = predicate["numbers"];
  const auto is_positive = [&](const char* key) {
    return numbers.is_object() && numbers.contains(key) && numbers[key].is_number() && numbers[key] > 0;
  };
  if (!is_positive("runs") || !is_positive("compared")) {
    add("numbers", "the statement compares no numbers");
    return shortfalls;
  }
  const auto first = numbers.value("first_difference", nlohmann::ordered_json());
  if (first.is_null()) return shortfalls;
  const bool has_module = first.is_object() && first.contains("module") && first["module"].is_string();
  add("numbers", "the file computes other numbers" +
                     (has_module ? ", first in " + first["module"].get<std::string>() : std::string()));
  return shortfalls;
}

}  // namespace whence::validation
