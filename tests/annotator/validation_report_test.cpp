// Validates a file with its sidecar, and writes the result in the formats of other tools.
#include <nlohmann/json.hpp>

#include "annotator/validation/operation_fates.h"
#include "annotator/validation/parameter_fates.h"
#include "annotator/validation/problems.h"
#include "annotator/validation/validate.h"
#include "annotator/validation/validation_text.h"
#include "tests/annotator/stamped_summary.h"

namespace whence {

using validation::Shortfall;
using validation::Validation;

namespace {

class ValidationReport : public StampedFileTest {
 protected:
  Validation validate(const validation::ValidateOptions& options = {}, bool with_sidecar = true) {
    auto result = validation::validate_file(path, with_sidecar ? &sidecar.program : nullptr, options);
    EXPECT_TRUE(result) << (result ? "" : to_text(result.diagnostics().front()));
    return std::move(*result);
  }
  // Returns the number of shortfalls against a threshold or against a list of required modules.
  std::size_t shortfall_count(const std::string& threshold, const std::vector<std::string>& required = {}) {
    validation::ValidateOptions options;
    if (!threshold.empty()) options.gates.minima = {validation::parse_threshold(threshold)};
    options.gates.required = required;
    return validate(options).shortfalls.size();
  }
};

std::int64_t covered_at(const Validation& validation, const std::string& module) {
  for (const auto& [path, counts] : validation.coverage.modules) {
    if (path == module) return counts.covered();
  }
  return -1;
}

TEST_F(ValidationReport, CountsNodesAtAndBelowEachModule) {
  const Validation result = validate();
  EXPECT_EQ(result.nodes, 8);
  // query has MatMul and Add; the layer also has the helper and the fused node. head has the fused node and a Relu. The
  // root also has the If with one node in each branch.
  EXPECT_EQ(covered_at(result, "encoder.layer.0.query"), 2);
  EXPECT_EQ(covered_at(result, "encoder.layer.0"), covered_at(result, "encoder"));
  EXPECT_EQ(covered_at(result, ""), 7);      // the helper has only an ancestor module
  EXPECT_EQ(covered_at(result, "head"), 2);  // the fused node and the Relu
  std::map<std::string, std::int64_t> operators;
  for (const auto& [name, counts] : result.coverage.operators) operators[name] = counts.total();
  EXPECT_EQ(operators["MatMul"], 1);
  EXPECT_EQ(operators["Neg"], 1);  // in a branch
}

TEST_F(ValidationReport, StampsWithoutASidecarStateNoModule) {
  const Validation result = validate({}, false);
  EXPECT_EQ(result.coverage.all.covered(), 0);
  EXPECT_EQ(result.coverage.unattributed.size(), 8u);
  EXPECT_FALSE(result.has_sidecar);
}

TEST_F(ValidationReport, GatesApplyToFilesModulesAndOperators) {
  EXPECT_EQ(shortfall_count("covered=87"), 0u);
  EXPECT_EQ(shortfall_count("covered=100@head"), 0u);
  EXPECT_EQ(shortfall_count("covered=88"), 1u);  // seven of eight nodes
  EXPECT_EQ(shortfall_count("matched=50"), 1u);
  EXPECT_EQ(shortfall_count("matched=50@op:Relu"), 1u);
  EXPECT_EQ(shortfall_count("covered=1@nowhere"), 1u);
  EXPECT_EQ(shortfall_count("", {"head", "encoder.layer.0.query"}), 0u);
  EXPECT_EQ(shortfall_count("", {"decoder"}), 1u);
}

TEST_F(ValidationReport, TheFileMustReachTheBaseline) {
  const Validation before = validate();
  std::ofstream(folder / "before.json") << "{}";
  validation::ValidateOptions options;
  options.gates.baseline = folder / "before.json";
  const auto refused = validation::validate_file(path, &sidecar.program, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.diagnostics().front().code, Code::wrong_kind);
  options.gates.baseline = path;
  const Validation with_baseline = validate(options);
  EXPECT_TRUE(with_baseline.shortfalls.empty());
  EXPECT_EQ(before.coverage.all.covered(), with_baseline.baseline.value().all.covered());
}

TEST_F(ValidationReport, OperationsHaveNodesOrAreFused) {
  const metadata::Recorded recorded(sidecar.program);
  const validation::CheckContext context{model, onnx_file::all_nodes(model.graph), &sidecar.program, &recorded};
  const auto fates = validation::operation_fates(context);
  ASSERT_EQ(fates.size(), 5u);
  using validation::Fate;
  const Fate expected[] = {Fate::arrived, Fate::fused, Fate::fused, Fate::arrived, Fate::arrived};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(fates[i].fate, expected[i]) << i << " " << name_of(fates[i].fate);
}

TEST_F(ValidationReport, OperationsWithoutANodeHaveAReason) {
  using validation::Elimination;
  using validation::Fate;
  // Appends a dropout whose result is returned and an unused sine.
  Program program = sidecar.program;
  const Argument last = program.outputs.front().value;
  for (const char* const target : {"aten::dropout", "aten::sin"}) {
    Node node;
    node.target = target;
    node.arguments = {{"input", last}};
    node.origin.op = static_cast<std::int32_t>(program.body.nodes.size());
    node.origin.scope = root_scope;
    node.outputs = {program.values.add(program.values[last.as<ValueRef>()->id])};
    program.body.nodes.push_back(node);
  }
  program.outputs.front().value = {ValueRef{program.body.nodes[5].outputs.front()}};
  const metadata::Recorded recorded(program);
  const validation::CheckContext context{model, onnx_file::all_nodes(model.graph), &program, &recorded};
  const auto fates = validation::operation_fates(context);
  ASSERT_EQ(fates.size(), 7u);
  EXPECT_EQ(fates[5].fate, Fate::eliminated) << name_of(fates[5].fate);
  EXPECT_EQ(fates[5].reason, Elimination::identity) << name_of(fates[5].reason);
  EXPECT_EQ(fates[6].fate, Fate::eliminated) << name_of(fates[6].fate);
  EXPECT_EQ(fates[6].reason, Elimination::unused) << name_of(fates[6].reason);
}

TEST_F(ValidationReport, TheTextListsAtMostSixtyModules) {
  Validation validation_of_many;
  validation_of_many.file = "m.onnx";
  validation_of_many.coverage.all.by = {100, 0, 0, 0, 0};
  validation_of_many.coverage.modules = {{"", validation_of_many.coverage.all}};
  for (int i = 0; i < 70; ++i) {
    origin::Counts counts;
    counts.by = {1, 0, 0, 0, 0};
    validation_of_many.coverage.modules.emplace_back("m" + std::to_string(i), counts);
  }
  const auto lines_of = [&](const validation::ReportExtent& extent) {
    const std::string text = validation::to_text(validation_of_many, extent, {});
    int lines = 0;
    for (int i = 0; i < 70; ++i) lines += text.find(" m" + std::to_string(i) + " ") != std::string::npos;
    EXPECT_EQ(text.find("and 11 more: --all") != std::string::npos, lines == 59) << text;
    return lines;
  };
  EXPECT_EQ(lines_of({.depth = 2}), 59);  // sixty rows including the root
  EXPECT_EQ(lines_of({.depth = 0}), 0);
  EXPECT_EQ(lines_of({.depth = 0, .all = true}), 70);
}

TEST_F(ValidationReport, AParameterIsFoundByName) {
  const metadata::Recorded recorded(sidecar.program);
  const validation::CheckContext context{model, onnx_file::all_nodes(model.graph), &sidecar.program, &recorded};
  const auto fates = validation::parameter_fates(context, path, validation::operation_fates(context));
  ASSERT_EQ(fates.size(), 1u);
  EXPECT_EQ(fates[ParameterId(0)].arrival, validation::Arrival::name);
}

TEST_F(ValidationReport, ARenamedParameterIsFoundByAUniqueShape) {
  using validation::Arrival;
  const auto arrival = [&](std::vector<std::int64_t> shape, bool twice) {
    Program program = sidecar.program;
    Parameter& parameter = program.parameters[ParameterId(0)];
    parameter.name = "encoder.layer.0.query.other";
    parameter.data = {DType::float32, std::move(shape), Bytes::left_out(8192)};
    if (twice) {
      program.parameters.push_back(parameter);
      Value second = program.values[program.body.nodes[0].find("weight")->as<ValueRef>()->id];
      second.index = 1;
      const ValueId id = program.values.add(std::move(second));
      program.body.nodes[3].arguments.push_back({"weight", {ValueRef{id}}});
    }
    const metadata::Recorded recorded(program);
    const validation::CheckContext context{model, onnx_file::all_nodes(model.graph), &program, &recorded};
    return validation::parameter_fates(context, path, validation::operation_fates(context))[ParameterId(0)].arrival;
  };
  EXPECT_EQ(arrival({4, 512}, false), Arrival::shape);
  EXPECT_NE(arrival({4, 512}, true), Arrival::shape);  // two parameters have this shape
  EXPECT_NE(arrival({4, 511}, false), Arrival::shape);
}

class Problems : public ::testing::Test {
 protected:
  // Two warnings, an allowed warning and a shortfall.
  Problems() {
    const validation::Check* check = validation::find_check("V101");
    result.file = "a<b>.onnx";
    result.findings = {{check, {{"/a:1, x%", "no name"}, {"second", ""}}, false}, {check, {{"hidden", ""}}, true}};
    result.checks = {check, validation::find_check("V102")};
    Shortfall shortfall;
    shortfall.rule = &validation::threshold_rule;
    shortfall.subject = "head";
    shortfall.message = "covered is 50 %";
    result.shortfalls = {shortfall};
    result.gates = {&validation::threshold_rule};
  }

  Validation result;
};

TEST_F(Problems, ExcludeAllowedFindings) {
  const auto problems = validation::problems_of(result);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].subject, "/a:1, x%");
  EXPECT_TRUE(problems[0].message.ends_with(": /a:1, x%: no name")) << problems[0].message;
  EXPECT_TRUE(problems[1].message.ends_with(": second")) << problems[1].message;
  EXPECT_EQ(problems[2].rule, &validation::threshold_rule);
}

TEST_F(Problems, SarifContainsRulesAndLocations) {
  const auto sarif = nlohmann::json::parse(validation::to_sarif(result, "models/my model.onnx"));
  const auto& run = sarif.at("runs").at(0);
  ASSERT_EQ(run.at("results").size(), 3u);
  const auto& first = run["results"][0];
  EXPECT_EQ(first.at("ruleId"), "V101");
  EXPECT_EQ(run.at("tool").at("driver").at("rules").at(first.at("ruleIndex").get<std::size_t>()).at("id"), "V101");
  const auto& location = first.at("locations").at(0);
  EXPECT_EQ(location.at("physicalLocation").at("artifactLocation").at("uri"), "models/my%20model.onnx");
  EXPECT_EQ(location.at("physicalLocation").at("artifactLocation").at("uriBaseId"), "%SRCROOT%");
  EXPECT_EQ(location.at("logicalLocations").at(0).at("fullyQualifiedName"), "/a:1, x%");
  const auto outside = nlohmann::json::parse(validation::to_sarif(result, "/tmp/m.onnx"))
                           .at("runs")
                           .at(0)
                           .at("results")
                           .at(0)
                           .at("locations")
                           .at(0)
                           .at("physicalLocation")
                           .at("artifactLocation");
  EXPECT_EQ(outside.at("uri"), "file:///tmp/m.onnx");
  EXPECT_FALSE(outside.contains("uriBaseId"));
}

TEST_F(Problems, JunitCountsTheCheckedRules) {
  const std::string text = validation::to_junit(result);
  EXPECT_NE(text.find("<testsuites tests=\"3\" failures=\"2\">"), std::string::npos) << text;
  EXPECT_NE(text.find("a&lt;b&gt;.onnx"), std::string::npos);
  EXPECT_EQ(text.find("hidden"), std::string::npos);
  EXPECT_NE(text.find("name=\"V102 "), std::string::npos);
}

TEST_F(Problems, GithubCommandsAreEscaped) {
  const std::string text = validation::to_github(result, "a:b,c.onnx");
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_TRUE(text.starts_with("::" + std::string(validation::find_check("V101")->level()) +
                               " file=a%3Ab%2Cc.onnx,title=V101 "))
      << text;
  EXPECT_NE(text.find("/a:1, x%25"), std::string::npos) << text;
}

TEST(Tolerance, IsACountOrAShareOfNodes) {
  const validation::Rule& rule = *validation::find_check("V101");
  const auto covers = [&](const char* text, std::int64_t findings, std::int64_t nodes) {
    return validation::parse_tolerance(text).covers(rule, findings, nodes);
  };
  EXPECT_TRUE(covers("3", 3, 100));
  EXPECT_FALSE(covers("3", 4, 100));
  EXPECT_TRUE(covers("0.5%", 1, 200));
  EXPECT_FALSE(covers("0.5%", 2, 200));
  EXPECT_TRUE(covers("V101=2", 2, 100));
  EXPECT_TRUE(covers("re:V1.*=2", 2, 100));
  EXPECT_FALSE(covers("V102=2", 1, 100));
  for (const char* const text : {"", "x", "-1", "V101=", "1%%"})
    EXPECT_THROW(validation::parse_tolerance(text), Error) << text;
}

}  // namespace
}  // namespace whence
