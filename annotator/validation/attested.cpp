#include "annotator/validation/attested.h"

#include <algorithm>
#include <set>

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
  const Gap tensors = gap_in(stated.predicate["tensors"]), nodes = gap_in(stated.predicate["nodes"]);
  if (tensors.missing > 0) shortfalls.push_back(shortfall(tensors, "tensor"));
  if (nodes.missing > 0) shortfalls.push_back(shortfall(nodes, "node"));
  const auto& predicate = stated.predicate;
  const bool has_numbers = predicate.contains("numbers") && predicate["numbers"].is_object();
  const auto first =
      has_numbers ? predicate["numbers"].value("first_difference", nlohmann::ordered_json()) : nlohmann::ordered_json();
  if (!first.is_null()) {
    const bool has_module = first.is_object() && first.contains("module") && first["module"].is_string();
    shortfalls.push_back({&attested_rule,
                          "",
                          "attested numbers",
                          100,
                          0,
                          std::nullopt,
                          {},
                          "the file computes other numbers" +
                              (has_module ? ", first in " + first["module"].get<std::string>() : std::string()),
                          false});
  }
  return shortfalls;
}

}  // namespace whence::validation
