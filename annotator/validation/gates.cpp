#include "annotator/validation/gates.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "annotator/text/path_glob.h"
#include "schema/nearest_names.h"
#include "schema/result.h"

namespace whence::validation {

using origin::Counts;
using text::matches_path;

extern const Rule threshold_rule, required_rule, baseline_rule;
const Rule threshold_rule = {"V501",
                             "threshold_not_reached",
                             "thresholds that are not reached",
                             "annotate with the model's sidecar, or lower --min",
                             "Asked for by --min: the share of nodes of one confidence, or of the three that count as "
                             "covered, in the file, in a module, or among the nodes of an operator type.",
                             Severity::error};
const Rule required_rule = {
    "V502",
    "module_not_covered",
    "required modules without a node, or with nodes that are not covered",
    "look at `whence explain` of their nodes, or at `whence validate --sidecar` for why there are none",
    "Asked for by --require: each module that the glob matches must have nodes, and all of them "
    "must be exact, matched or inferred.",
    Severity::error};
const Rule baseline_rule = {
    "V503",
    "coverage_fell",
    "shares of nodes that fell below the baseline",
    "find what changed with `whence diff`, or make a new baseline with `whence validate --json`",
    "Asked for by --baseline: covered and exact nodes, of the file and of each module, may not "
    "become fewer, and no module may lose all of its nodes.",
    Severity::error};

namespace {

// Shares are quotients of whole numbers; what differs by less is rounding.
constexpr double rounding = 1e-9;

using Rows = std::vector<std::pair<std::string, Counts>>;

std::vector<std::string_view> names_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& [name, counts] : rows) names.push_back(name);
  return names;
}

class Gatekeeper {
 public:
  Gatekeeper(const Coverage& coverage, const std::vector<SilentModule>& silent)
      : coverage_(coverage), silent_(silent) {}

  void threshold(const Threshold& limit) {
    const auto hold = [&](const std::string& subject, const Counts& counts) {
      const double reached = limit.reached(counts);
      if (reached < limit.percent) add(threshold_rule, subject, limit.measure, limit.percent, reached);
    };
    if (!limit.modules.empty()) {
      bool any = false;
      for (const auto& [path, counts] : coverage_.modules) {
        if (matches_path(limit.modules, path)) hold(path, counts), any = true;
      }
      if (!any) add_missing(threshold_rule, "module", limit.modules, limit.measure, limit.percent);
    } else if (!limit.op_type.empty()) {
      const auto row = std::ranges::find(coverage_.operators, limit.op_type, &Rows::value_type::first);
      if (row == coverage_.operators.end()) {
        add_missing(threshold_rule, "operator", limit.op_type, limit.measure, limit.percent);
      } else {
        hold(limit.op_type, row->second);
      }
    } else {
      hold("", coverage_.all);
    }
  }

  void require(const std::string& glob) {
    bool any = false;
    for (const auto& [path, counts] : coverage_.modules) {
      if (!matches_path(glob, path)) continue;
      any = true;
      if (counts.covered() < counts.total()) {
        add(required_rule, path, "covered", 100, 100 * counts.share(counts.covered()));
      }
    }
    for (const SilentModule& module : silent_) {
      if (!matches_path(glob, module.path)) continue;
      any = true;
      add(required_rule, module.path, "covered", 100, 0);
    }
    if (!any) add_missing(required_rule, "module", glob, "covered", 100);
  }

  void compare(const Baseline& baseline) {
    compare_counts("", baseline.all, coverage_.all);
    std::map<std::string, const Counts*> now;
    for (const auto& [path, counts] : coverage_.modules) now.emplace(path, &counts);
    for (const auto& [path, before] : baseline.modules) {
      if (path.empty()) continue;  // the root is the file, but for nodes without a module
      const auto found = now.find(path);
      compare_counts(path, before, found == now.end() ? Counts{} : *found->second);
    }
  }

  std::vector<Shortfall> take() { return std::move(found_); }

 private:
  void compare_counts(const std::string& subject, const Counts& before, const Counts& now) {
    for (const char* measure : {"covered", "exact"}) {
      const Threshold reached{measure, 0, "", ""};
      const double was = reached.reached(before);
      // A module without nodes has lost all that it had.
      const double is = now.total() == 0 && before.total() > 0 ? 0 : reached.reached(now);
      if (is < was - rounding) add(baseline_rule, subject, measure, was, is);
    }
  }

  void add(const Rule& rule, const std::string& subject, const std::string& measure, double minimum, double reached) {
    found_.push_back({&rule, subject, measure, minimum, reached, ""});
  }

  // The file has nothing of that name: it is gone, or was never called so.
  void add_missing(const Rule& rule, const std::string& kind, const std::string& name, const std::string& measure,
                   double minimum) {
    std::vector<std::string_view> known = names_of(kind == "operator" ? coverage_.operators : coverage_.modules);
    if (kind == "module") {
      for (const SilentModule& module : silent_) known.push_back(module.path);
    }
    const std::string near = nearest_remedy(name, known, "");
    found_.push_back({&rule, name, measure, minimum, 0,
                      "no " + kind + " of the file matches '" + name + "'" + (near.empty() ? "" : "; " + near)});
  }

  const Coverage& coverage_;
  const std::vector<SilentModule>& silent_;
  std::vector<Shortfall> found_;
};

}  // namespace

double Threshold::reached(const Counts& counts) const {
  const auto confidence = origin::parse_confidence(measure);
  return 100 * counts.share(confidence ? counts[*confidence] : counts.covered());
}

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
  const bool known = threshold.measure == "covered" || origin::parse_confidence(threshold.measure);
  const bool complete = at == text.size() || !threshold.op_type.empty() || !threshold.modules.empty();
  if (!known || !complete || failure != std::errc() || stop != end ||
      !(threshold.percent >= 0 && threshold.percent <= 100)) {
    throw Error(Code::usage, "'" + text + "' is not a threshold",
                "a confidence or 'covered', and a percentage from 0 to 100: --min exact=95, "
                "--min 'covered=99@encoder.*', --min covered=90@op:MatMul",
                {.stage = "command line"});
  }
  return threshold;
}

std::vector<Shortfall> shortfalls_of(const Coverage& coverage, const std::vector<SilentModule>& silent,
                                     const Gates& gates, const Baseline* baseline) {
  Gatekeeper keeper(coverage, silent);
  for (const Threshold& threshold : gates.minima) keeper.threshold(threshold);
  for (const std::string& glob : gates.required) keeper.require(glob);
  if (baseline != nullptr) keeper.compare(*baseline);
  return keeper.take();
}

}  // namespace whence::validation
