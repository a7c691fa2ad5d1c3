#include "annotator/validation/attested.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/expression_json.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/stated_rows.h"
#include "annotator/derivation/statement.h"
#include "schema/printable.h"

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

using StatementJson = nlohmann::ordered_json;
using Verdicts = std::set<std::string, std::less<>>;

// A row without one of these verdicts counts as unaccounted.
Gap gap_in(const StatementJson& table, const Verdicts& known) {
  Gap gap{.rows = static_cast<std::int64_t>(table.size())};
  for (const StatementJson& row : table) {
    const bool has_verdict = row.is_object() && row.contains("verdict") && row["verdict"].is_string();
    if (has_verdict && known.contains(row["verdict"].get<std::string>())) continue;
    ++gap.missing;
    if (!row.is_object() || !row.contains("modules") || !row["modules"].is_array()) continue;
    for (const StatementJson& module : row["modules"]) {
      if (module.is_string()) gap.modules.insert(module.get<std::string>());
    }
  }
  return gap;
}

// Returns what a row adds to the totals: its bytes, or one.
std::int64_t share_of(const StatementJson& row, bool in_bytes) {
  if (!in_bytes) return 1;
  return row.contains("bytes") && row["bytes"].is_number_integer() ? row["bytes"].get<std::int64_t>() : 0;
}

// Returns true if `totals` has the sum of each verdict in the rows.
bool are_sums(const StatementJson& totals, const StatementJson& rows, bool in_bytes) {
  std::map<std::string, std::int64_t> sums;
  for (const StatementJson& row : rows) {
    if (row.is_object() && row.contains("verdict") && row["verdict"].is_string())
      sums[row["verdict"].get<std::string>()] += share_of(row, in_bytes);
  }
  for (const auto& [verdict, total] : totals.items()) {
    if (!total.is_number_integer() || total.get<std::int64_t>() != sums[verdict]) return false;
    sums.erase(verdict);
  }
  return sums.empty();
}

bool has_right_totals(const StatementJson& predicate) {
  if (!predicate.contains("totals") || !predicate["totals"].is_object()) return false;
  const StatementJson& totals = predicate["totals"];
  const auto has = [&](const char* key, const char* table) {
    return totals.contains(key) && totals[key].is_object() &&
           are_sums(totals[key], predicate[table], std::string_view(key) == "bytes");
  };
  return has("tensors", "tensors") && has("bytes", "tensors") && has("nodes", "nodes");
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

// Returns the name of the first tensor whose verdict needs a derivation that it lacks. Throws as expression_from().
std::optional<std::string> tensor_without_derivation(const StatementJson& tensors, const Place& place) {
  for (const StatementJson& row : tensors) {
    if (!row.is_object()) continue;
    if (row.contains("derivation")) {
      derivation::expression_from(row["derivation"], place);
      continue;
    }
    const auto verdict = row.find("verdict");
    if (verdict != row.end() && (*verdict == "exact" || *verdict == "bounded"))
      return row.contains("name") && row["name"].is_string() ? row["name"].get<std::string>() : "";
  }
  return std::nullopt;
}

// Nodes are accounted for only with a sidecar, and numbers only with values: these are sources beside the checkpoint.
bool names_all_sources(const StatementJson& predicate, bool has_accounted_nodes) {
  const std::int64_t values = predicate.contains("numbers") ? 1 : 0;
  const auto& sources = predicate["sources"];
  const auto others = std::ranges::count_if(sources, [](const StatementJson& each) {
    return !each["name"].get_ref<const std::string&>().ends_with(".whence.json");
  });
  return others >= 1 + values && std::ssize(sources) >= 1 + (has_accounted_nodes ? 1 : 0) + values;
}

// Returns what is wrong with the comparison of numbers; "" if nothing.
std::string wrong_in_numbers(const StatementJson& numbers) {
  // The highest limit for rounding errors that attest has for any file (4 bits).
  constexpr double highest_limit = 0.5;
  const auto count = [&](const char* key) {
    return numbers.is_object() && numbers.contains(key) && numbers[key].is_number_integer()
               ? numbers[key].get<std::int64_t>()
               : 0;
  };
  if (count("runs") <= 0 || count("compared") <= 0 || count("compared") > count("calls"))
    return "the statement compares no numbers";
  const bool has_tolerance = numbers.contains("tolerance") && numbers["tolerance"].is_number();
  if (!has_tolerance || numbers["tolerance"] <= 0 || numbers["tolerance"] > highest_limit)
    return "the statement's numbers have no tolerance, or one with which they prove nothing";
  if (!numbers.contains("first_difference")) return "the statement compares no numbers";
  const StatementJson& first = numbers["first_difference"];
  if (first.is_null()) return "";
  const bool has_module = first.is_object() && first.contains("module") && first["module"].is_string();
  return "the file computes other numbers" + (has_module ? ", first in " + first["module"].get<std::string>() : "");
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
  const StatementJson& predicate = stated.predicate;
  const Gap tensors = gap_in(predicate["tensors"], {"exact", "bounded", "constant", "calibrated"});
  const Gap nodes = gap_in(predicate["nodes"], {"operation", "movement", "size"});
  derivation::Contents contents(path, model.file);
  if (const auto difference =
          derivation::difference_in_tensors(predicate["tensors"], derivation::FileTensors(model), contents)) {
    add("rows", *difference);
  } else if (const auto other = derivation::difference_in_nodes(predicate["nodes"], model.graph)) {
    add("rows", *other);
  }
  if (!has_right_totals(predicate)) add("totals", "the statement's totals are not those of its rows");
  if (const auto name = tensor_without_derivation(predicate["tensors"], {.file = statement, .stage = "read"}))
    add("derivations", "the statement has no derivation of the tensor '" + printable(*name) + "'");
  if (!names_all_sources(predicate, nodes.missing < nodes.rows))
    add("sources", "the statement does not name the checkpoint, the sidecar or the values that it needs");
  if (tensors.missing > 0) shortfalls.push_back(shortfall(tensors, "tensor"));
  if (nodes.missing > 0) shortfalls.push_back(shortfall(nodes, "node"));
  const auto absent =
      std::ranges::count_if(predicate["absent"], [](const StatementJson& row) { return row.contains("has_effect"); });
  if (absent > 0) add("parameters", "the file does not hold " + std::to_string(absent) + " parameters of the program");
  if (!predicate["differences"].empty()) add("results", "the file has other results than the program");
  if (!predicate.contains("numbers")) return shortfalls;
  if (const std::string wrong = wrong_in_numbers(predicate["numbers"]); !wrong.empty()) add("numbers", wrong);
  return shortfalls;
}

}  // namespace whence::validation
