#include "annotator/validation/gates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <ranges>

#include "annotator/origin/module_tree.h"
#include "annotator/text/patterns.h"
#include "schema/nearest_names.h"
#include "schema/result.h"

namespace whence::validation {

using origin::Confidence;
using origin::Counts;
using text::Patterns;

extern const Rule threshold_rule, required_rule, baseline_rule;
const Rule threshold_rule = {
    "V501",
    "threshold_not_reached",
    "thresholds that are not reached",
    "annotate with the model's sidecar, or lower --min",
    "Set by --min: the share of nodes with one confidence, or with one of the three that count as "
    "covered, in the file, in a module, or among the nodes of an operator type.",
    Severity::error};
const Rule required_rule = {
    "V502",
    "module_not_covered",
    "required modules without a node, or with nodes that are not covered",
    "run `whence explain` on their nodes; `whence validate --sidecar` shows why a module has none",
    "Set by --require: each module that the glob matches must have nodes, and all of them must be exact, matched or "
    "inferred. A module that lost all its nodes is found only if --sidecar or --baseline names it, or if the glob is "
    "its own name.",
    Severity::error};
const Rule baseline_rule = {
    "V503",
    "coverage_fell",
    "nodes that became unknown or less sure since the baseline",
    "`whence annotate FILE --from BEFORE`, where BEFORE is the tool's annotated input, restores origins; "
    "`whence carry` keeps them through a tool; `whence diff` shows the changes",
    "Set by --baseline: no covered node may become unknown, and no exact node less sure. Nodes that a tool removed do "
    "not count; --require names modules that must stay.",
    Severity::error};

namespace {

// Shares are quotients of whole numbers, so a smaller difference is a rounding error.
constexpr double rounding = 1e-9;

constexpr std::size_t max_named_modules = 3;

using Rows = std::vector<std::pair<std::string, Counts>>;

std::vector<std::string_view> names_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& [name, counts] : rows) names.push_back(name);
  return names;
}

std::string number_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", number);
  return text.data();
}

// Computes the losses of modules since a baseline. The counts of a module include the modules below it. The counts of
// the root are those of the file, including nodes without a module.
class Losses {
 public:
  Losses(const Baseline& baseline, const Coverage& coverage) {
    for (const auto& [path, counts] : baseline.modules) tree_.rows[tree_.add(path)].before = counts;
    for (const auto& [path, counts] : coverage.modules) tree_.rows[tree_.add(path)].now = counts;
    tree_.rows.front().before = baseline.all;
    tree_.rows.front().now = coverage.all;
  }

  // Returns how many nodes are still in the file but no longer counted by `count`: in each module the decrease of the
  // counted nodes, at most the increase of the uncounted ones. Shares would also fall when a tool removes nodes. A gain
  // in one module does not offset a loss in another.
  template <class Count>
  std::int64_t nodes(const Count& count) const {
    return lost_within(count).front();
  }

  // Returns the increase of nodes that are not covered, including nodes that a tool inserted without an origin.
  std::int64_t more_unknown() const {
    return more_uncounted(tree_.rows.front(), [](const Counts& counts) { return counts.covered(); });
  }

  // Returns the innermost module with the whole loss, or the modules in it that share the loss, largest loss first. If
  // the loss is in no module, because nodes lost their module or new nodes have none, returns the modules with fewer
  // counted nodes, or else with more uncounted nodes.
  template <class Count>
  std::vector<std::string> modules(const Count& count) const {
    const std::vector<std::int64_t> lost = lost_within(count);
    const auto of_module = [&](std::size_t row) { return lost[row]; };
    const auto decrease = [&](std::size_t row) { return fewer(tree_.rows[row], count); };
    const auto increase = [&](std::size_t row) { return more_uncounted(tree_.rows[row], count); };
    if (!fallen_children(0, of_module).empty()) return divided(of_module);
    return fallen_children(0, decrease).empty() ? divided(increase) : divided(decrease);
  }

 private:
  struct Row : origin::ModulePlace {
    Counts before, now;
  };

  template <class Count>
  static std::int64_t fewer(const Row& row, const Count& count) {
    return count(row.before) - count(row.now);
  }

  template <class Count>
  static std::int64_t more_uncounted(const Row& row, const Count& count) {
    return (row.now.total() - count(row.now)) - (row.before.total() - count(row.before));
  }

  // Returns, by row, the nodes lost in the module and below it.
  template <class Count>
  std::vector<std::int64_t> lost_within(const Count& count) const {
    std::vector<std::int64_t> lost(tree_.rows.size());
    for (std::size_t i = tree_.rows.size(); i-- > 0;) {  // a module comes after its parent
      const Row& row = tree_.rows[i];
      lost[i] = std::max(lost[i], std::min(fewer(row, count), more_uncounted(row, count)));
      if (row.parent) lost[*row.parent] += lost[i];
    }
    return lost;
  }

  template <class Fall>
  std::vector<std::string> divided(const Fall& fall) const {
    std::size_t at = 0;
    std::vector<std::size_t> within = fallen_children(at, fall);
    while (within.size() == 1 && fall(within.front()) == fall(at)) within = fallen_children(at = within.front(), fall);
    std::vector<std::pair<std::int64_t, std::size_t>> parts;
    std::int64_t own = fall(at);
    for (const std::size_t row : within) own -= parts.emplace_back(fall(row), row).first;
    if (own > 0 || parts.empty()) parts.emplace_back(own, at);  // lost in the module itself
    std::ranges::stable_sort(parts, std::greater<>(), [](const auto& part) { return part.first; });
    std::vector<std::string> paths;
    for (const auto& [fallen, row] : parts) paths.push_back(tree_.rows[row].path);
    return paths;
  }

  template <class Fall>
  std::vector<std::size_t> fallen_children(std::size_t row, const Fall& fall) const {
    std::vector<std::size_t> fallen;
    for (const std::size_t child : tree_.rows[row].children) {
      if (fall(child) > 0) fallen.push_back(child);
    }
    return fallen;
  }

  origin::ModuleTree<Row> tree_;
};

class GateChecks {
 public:
  GateChecks(const Coverage& coverage, const std::vector<ModuleWithoutNode>& silent, const Baseline* baseline)
      : coverage_(coverage), silent_(silent), baseline_(baseline) {}

  void threshold(const Threshold& limit) {
    const auto require_share = [&](const std::string& subject, const Counts& counts) {
      const double reached = limit.reached(counts);
      if (reached >= limit.percent) return;
      const auto minimum = std::ceil(limit.percent / 100 * static_cast<double>(counts.total()) - rounding);
      const auto lacking = static_cast<std::int64_t>(minimum) - limit.nodes(counts);
      add(threshold_rule, subject, limit.measure, limit.percent, reached, std::max<std::int64_t>(lacking, 1));
    };
    const auto require_share_of_rows = [&](const std::string& kind, const Rows& rows, const Patterns& patterns,
                                           const std::string& name) {
      bool any = false;
      for (const auto& [subject, counts] : rows) {
        if (patterns.match(subject)) require_share(subject, counts), any = true;
      }
      if (!any) add_missing(threshold_rule, kind, name, limit.measure, limit.percent);
    };
    if (!limit.modules.empty()) {
      require_share_of_rows("module", coverage_.modules, Patterns::of_paths({limit.modules}), limit.modules);
    } else if (!limit.op_type.empty()) {
      require_share_of_rows("operator", coverage_.operators, Patterns::of_names({limit.op_type}), limit.op_type);
    } else {
      require_share("", coverage_.all);
    }
  }

  void require(const std::string& glob) {
    const Patterns modules = Patterns::of_paths({glob});
    bool any = false;
    for (const auto& [path, counts] : coverage_.modules) {
      if (!modules.match(path)) continue;
      any = true;
      if (counts.covered() < counts.total()) {
        add(required_rule, path, "covered", 100, 100 * counts.share(counts.covered()),
            counts.total() - counts.covered());
      }
    }
    for (const auto& [path, reason] : without_node()) {
      if (!modules.match(path)) continue;
      any = true;
      add_shortfall(required_rule, path, "covered", 100, path + " has no node: " + reason);
    }
    if (!any) add_missing(required_rule, "module", glob, "covered", 100);
  }

  void compare() {
    const Baseline& baseline = *baseline_;
    const auto covered = [](const Counts& counts) { return counts.covered(); };
    const auto exact = [](const Counts& counts) { return counts[Confidence::exact]; };
    const Losses losses(baseline, coverage_);
    const std::int64_t unknown = std::max(losses.nodes(covered), losses.more_unknown());
    if (unknown > 0) {
      const std::string more = unknown == 1 ? "1 more node is" : std::to_string(unknown) + " more nodes are";
      add_lost("covered", unknown, more + " unknown", losses.modules(covered), baseline);
    }
    // Nodes that became unknown also became less sure; do not report them twice.
    if (const std::int64_t unsure = losses.nodes(exact) - losses.nodes(covered); unsure > 0) {
      const std::string more = unsure == 1 ? "1 node is" : std::to_string(unsure) + " nodes are";
      add_lost("exact", unsure, more + " less sure", losses.modules(exact), baseline);
    }
  }

  std::vector<Shortfall> take() { return std::move(found_); }

 private:
  void add(const Rule& rule, const std::string& subject, const std::string& measure, double minimum, double reached,
           std::optional<std::int64_t> nodes) {
    const std::string message = measure + (subject.empty() ? "" : " of " + subject) + " is " + number_text(reached) +
                                " %, not " + number_text(minimum) + " %";
    found_.push_back({&rule, subject, measure, minimum, reached, nodes, {}, message, false});
  }

  void add_lost(const std::string& measure, std::int64_t nodes, std::string message,
                const std::vector<std::string>& modules, const Baseline& baseline) {
    const Threshold share{measure, 0, "", ""};
    const double was = share.reached(baseline.all), is = share.reached(coverage_.all);
    for (std::size_t i = 0; i < std::min(modules.size(), max_named_modules); ++i) {
      message += (i == 0 ? ": " : ", ") + (modules[i].empty() ? "(root)" : modules[i]);
    }
    message += "; " + measure + " was " + number_text(was) + " %, is " + number_text(is) + " %";
    found_.push_back({&baseline_rule, "", measure, was, is, nodes, modules, message, false});
  }

  // Returns the modules of the sidecar or the baseline that have no node in the file, with the reason.
  std::map<std::string, std::string> without_node() const {
    std::map<std::string, std::string> reasons;
    for (const ModuleWithoutNode& module : silent_) reasons.emplace(module.path, text_of(module.reason));
    if (baseline_ == nullptr) return reasons;
    const std::vector<std::string_view> present = names_of(coverage_.modules);
    for (const auto& [path, counts] : baseline_->modules) {
      if (counts.total() > 0 && std::ranges::find(present, path) == present.end()) {
        reasons.emplace(path, "the baseline has " + std::to_string(counts.total()));
      }
    }
    return reasons;
  }

  // Adds a shortfall that is not a number of nodes: the file has no node of the subject at all.
  void add_shortfall(const Rule& rule, const std::string& subject, const std::string& measure, double minimum,
                     const std::string& message) {
    found_.push_back({&rule, subject, measure, minimum, 0, std::nullopt, {}, message, false});
  }

  // Reports a pattern without a match: the module or operator was removed, or the name is wrong.
  void add_missing(const Rule& rule, const std::string& kind, const std::string& name, const std::string& measure,
                   double minimum) {
    std::vector<std::string_view> known = names_of(kind == "operator" ? coverage_.operators : coverage_.modules);
    const std::map<std::string, std::string> missing = without_node();
    if (kind == "module") std::ranges::copy(missing | std::views::keys, std::back_inserter(known));
    const std::string near = nearest_remedy(name, known, "");
    add_shortfall(rule, name, measure, minimum,
                  "no " + kind + " of the file matches '" + name + "'" + (near.empty() ? "" : "; " + near));
  }

  const Coverage& coverage_;
  const std::vector<ModuleWithoutNode>& silent_;
  const Baseline* baseline_;
  std::vector<Shortfall> found_;
};

}  // namespace

std::int64_t Threshold::nodes(const Counts& counts) const {
  const auto confidence = origin::parse_confidence(measure);
  return confidence ? counts[*confidence] : counts.covered();
}

double Threshold::reached(const Counts& counts) const { return 100 * counts.share(nodes(counts)); }

Threshold parse_threshold(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t at = std::min(text.find('@', equals == std::string::npos ? 0 : equals), text.size());
  Threshold threshold;
  threshold.measure = text.substr(0, equals);
  const char* const end = text.data() + at;
  const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [stop, failure] = std::from_chars(begin, end, threshold.percent);
  const std::string of = at < text.size() ? text.substr(at + 1) : "";
  (of.starts_with("op:") ? threshold.op_type : threshold.modules) = of.starts_with("op:") ? of.substr(3) : of;
  // Refuses an invalid pattern before any file is read.
  Patterns::of_paths({threshold.modules});
  Patterns::of_names({threshold.op_type});
  const bool known = threshold.measure == "covered" || origin::parse_confidence(threshold.measure);
  const bool complete = at == text.size() || !threshold.op_type.empty() || !threshold.modules.empty();
  if (!known || !complete || failure != std::errc() || stop != end ||
      !(threshold.percent >= 0 && threshold.percent <= 100)) {
    throw Error(Code::usage, "'" + text + "' is not a threshold",
                "specify a confidence or 'covered' and a percentage from 0 to 100: --min exact=95, "
                "--min 'covered=99@encoder.*', --min covered=90@op:MatMul",
                {.stage = "command line"});
  }
  return threshold;
}

bool Tolerance::covers(const Rule& checked, std::int64_t findings, std::int64_t nodes) const {
  const Patterns rules = Patterns::of_names({rule});
  if (!rule.empty() && !rules.match(checked.code) && !rules.match(checked.name)) return false;
  const double limit = percent ? amount / 100 * static_cast<double>(nodes) + rounding : amount;
  return static_cast<double>(findings) <= limit;
}

Tolerance parse_tolerance(const std::string& text) {
  Tolerance tolerance;
  std::string_view number = text;
  if (const std::size_t equals = text.find('='); equals != std::string::npos) {
    tolerance.rule = text.substr(0, equals);
    number.remove_prefix(equals + 1);
  }
  tolerance.percent = number.ends_with('%');
  if (tolerance.percent) number.remove_suffix(1);
  const char* const end = number.data() + number.size();
  const auto [stop, failure] = std::from_chars(number.data(), end, tolerance.amount);
  if (failure != std::errc() || stop != end || !(tolerance.amount >= 0 && tolerance.amount <= 1e15)) {
    throw Error(Code::usage, "'" + text + "' is not a tolerance",
                "specify a number of findings or a percentage of the nodes, for every check or for one: --tolerance 3, "
                "--tolerance 0.5%, "
                "--tolerance V503=2",
                {.stage = "command line"});
  }
  return tolerance;
}

std::vector<Shortfall> shortfalls_of(const Coverage& coverage, const std::vector<ModuleWithoutNode>& silent,
                                     const Gates& gates, const Baseline* baseline) {
  GateChecks checks(coverage, silent, baseline);
  for (const Threshold& threshold : gates.minima) checks.threshold(threshold);
  for (const std::string& glob : gates.required) checks.require(glob);
  if (baseline != nullptr) checks.compare();
  return checks.take();
}

}  // namespace whence::validation
