#include "annotator/validation/problems.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "schema/json_text.h"
#include "schema/printable.h"

namespace whence::validation {
namespace {

using Json = nlohmann::ordered_json;

Json text_json(const std::string& text) { return {{"text", text}}; }

Json rule_json(const Rule& rule) {
  return {{"id", rule.code},
          {"name", rule.name},
          {"shortDescription", text_json(rule.summary)},
          {"fullDescription", text_json(rule.why)},
          {"help", text_json(rule.remedy)},
          {"defaultConfiguration", {{"level", rule.level()}}}};
}

// Percent-encodes the characters that the runner of GitHub Actions decodes; in properties, separators too.
std::string command_text(const std::string& text, bool property) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '%' || c == '\n' || c == '\r' || (property && (c == ':' || c == ','))) {
      std::array<char, 4> code{};
      std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      escaped += code.data();
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Returns the path as a URI reference: absolute for an absolute path, else relative to the root of the repository.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with("/") ? "file://" : "";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    uri += plain ? std::string(1, c) : code.data();
  }
  return uri;
}

std::string shown(const Problem& problem) { return problem.message + "; try: " + problem.rule->remedy; }

}  // namespace

std::vector<Problem> problems_of(const Validation& validation) {
  std::vector<Problem> problems;
  for (const Finding& finding : validation.findings) {
    if (finding.allowed) continue;
    for (const FindingItem& item : finding.items) {
      problems.push_back({finding.check, item.subject,
                          std::string(finding.check->summary) + ": " + item.subject +
                              (item.detail.empty() ? "" : ": " + item.detail)});
    }
  }
  for (const Shortfall& shortfall : validation.shortfalls) {
    if (!shortfall.allowed) problems.push_back({shortfall.rule, shortfall.subject, shortfall.message});
  }
  return problems;
}

std::string to_sarif(const Validation& validation, const std::string& path) {
  Json rules = Json::array(), results = Json::array();
  for (const Rule* rule : all_rules()) rules.push_back(rule_json(*rule));
  for (const Problem& problem : problems_of(validation)) {
    const auto at = std::ranges::find(all_rules(), problem.rule) - all_rules().begin();
    Json artifact = {{"uri", uri_of(path)}};
    if (!path.starts_with("/")) artifact["uriBaseId"] = "%SRCROOT%";
    Json place = {{"physicalLocation", {{"artifactLocation", artifact}}}};
    if (!problem.subject.empty()) {
      place["logicalLocations"] = Json::array({{{"fullyQualifiedName", printable(problem.subject)}}});
    }
    results.push_back({{"ruleId", problem.rule->code},
                       {"ruleIndex", at},
                       {"level", problem.rule->level()},
                       {"message", text_json(printable(shown(problem)))},
                       {"locations", Json::array({place})}});
  }
  const Json driver = {{"name", "whence"}, {"version", WHENCE_VERSION}, {"rules", rules}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  const Json sarif = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return json_text(sarif, 2) + "\n";
}

std::string to_junit(const Validation& validation) {
  const std::vector<Problem> problems = problems_of(validation);
  std::string cases;
  int tests = 0, failures = 0;
  for (const Rule* rule : all_rules()) {
    std::string messages;
    for (const Problem& problem : problems) {
      if (problem.rule == rule) messages += (messages.empty() ? "" : "\n") + problem.message;
    }
    const bool has_run = std::ranges::any_of(validation.checks, [&](const Check* check) { return check == rule; }) ||
                         std::ranges::find(validation.gates, rule) != validation.gates.end();
    if (!has_run && messages.empty()) continue;
    ++tests;
    cases += "    <testcase classname=\"whence." + escape_xml(validation.file) + "\" name=\"" + rule->code + " " +
             rule->name + "\"";
    if (messages.empty()) {
      cases += "/>\n";
      continue;
    }
    ++failures;
    cases += ">\n      <failure type=\"" + std::string(rule->code) + "\" message=\"" + escape_xml(rule->summary) +
             "\">" + escape_xml(messages + "\ntry: " + rule->remedy) + "</failure>\n    </testcase>\n";
  }
  const std::string counts = "tests=\"" + std::to_string(tests) + "\" failures=\"" + std::to_string(failures) + "\"";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites " + counts +
         ">\n  <testsuite name=\"whence validate " + escape_xml(validation.file) + "\" " + counts + ">\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

std::string to_github(const Validation& validation, const std::string& path) {
  std::string text;
  for (const Problem& problem : problems_of(validation)) {
    text += "::" + std::string(problem.rule->level()) + " file=" + command_text(path, true) +
            ",title=" + command_text(std::string(problem.rule->code) + " " + problem.rule->name, true) +
            "::" + command_text(shown(problem), false) + "\n";
  }
  return text;
}

}  // namespace whence::validation
