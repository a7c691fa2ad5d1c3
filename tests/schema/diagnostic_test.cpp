// The table of codes matches the enum. Also: the text and JSON forms of a diagnostic.
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/schema/temporary_folder.h"
#include "whence/diagnostics.h"

namespace whence {
namespace {

// Returns the name and number of each enumerator of Code by parsing the header.
std::vector<std::pair<std::string, int>> enumerators() {
  const std::string header = content_of(std::string(WHENCE_SOURCE_DIR) + "/include/whence/diagnostics.h");
  const std::size_t start = header.find("enum class Code");
  const std::string body = header.substr(start, header.find("};", start) - start);
  std::vector<std::pair<std::string, int>> codes;
  std::istringstream lines(body);
  std::string name, sign;
  for (std::string line; std::getline(lines, line);) {
    int number = 0;
    std::istringstream words(line);
    if (words >> name >> sign >> number && sign == "=") codes.emplace_back(name, number);
  }
  return codes;
}

TEST(Diagnostic, TableMatchesEnum) {
  const auto expected = enumerators();
  ASSERT_GT(expected.size(), 20u);
  ASSERT_EQ(all_codes().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const CodeInfo& entry = all_codes()[i];
    EXPECT_EQ(entry.name, expected[i].first);
    EXPECT_EQ(static_cast<int>(entry.code), expected[i].second);
    EXPECT_EQ(&info(entry.code), &entry);
    EXPECT_TRUE(entry.summary.ends_with('.')) << entry.name;
    if (i > 0) {
      EXPECT_LT(all_codes()[i - 1].code, entry.code);
    }
  }
}

TEST(Diagnostic, HundredsDetermineTheExitCode) {
  const std::map<int, ExitCode> exits{{1, ExitCode::usage},  {2, ExitCode::malformed}, {3, ExitCode::unsupported},
                                      {4, ExitCode::output}, {5, ExitCode::security},  {9, ExitCode::bug}};
  for (const CodeInfo& entry : all_codes()) {
    EXPECT_EQ(entry.exit, exits.at(static_cast<int>(entry.code) / 100)) << entry.name;
  }
}

Diagnostic missing_converter() {
  Diagnostic diagnostic{Code::no_converter, Severity::error, "aten::foo.bar", {}, "--on-unsupported=domain", 14, {}};
  diagnostic.where = {
      .stage = "convert", .module = "encoder.layers.0.attn", .op = "aten::foo.bar", .source = "model.py:88"};
  return diagnostic;
}

TEST(Diagnostic, TextIsOneLine) {
  struct Row {
    std::function<void(Diagnostic&)> change;
    std::string expected;
  };
  const Row rows[] = {
      {[](Diagnostic&) {},
       "E0301 no converter: aten::foo.bar (x14) at encoder.layers.0.attn, model.py:88; try: --on-unsupported=domain"},
      {[](Diagnostic& d) { d.more_places = {{.module = "decoder"}, {.module = "head", .source = "model.py:9"}}; },
       "E0301 no converter: aten::foo.bar (x14) at encoder.layers.0.attn, model.py:88; also at decoder and head, "
       "model.py:9; try: --on-unsupported=domain"},
      {[](Diagnostic& d) {
         d.where = {.has_module = true};
         d.count = 1;
       },
       "E0301 no converter: aten::foo.bar at the root module; try: --on-unsupported=domain"},
      {[](Diagnostic& d) { d = {Code::baked_size, Severity::warning, "64", {.file = "m.pt"}, "", 1, {}}; },
       "warning: E0304 baked size: 64 at m.pt"},
      {[](Diagnostic& d) {
         d = {Code::corrupt_file, Severity::error, "bad name '\x1b[31m\n\x7f'", {}, "repair it", 1, {}};
       },
       "E0204 corrupt file: bad name '\\x1b[31m\\n\\x7f'; try: repair it"},
  };
  for (const Row& row : rows) {
    Diagnostic diagnostic = missing_converter();
    row.change(diagnostic);
    EXPECT_EQ(to_text(diagnostic), row.expected);
  }
}

TEST(Diagnostic, JsonContainsEveryField) {
  Diagnostic diagnostic = missing_converter();
  diagnostic.more_places = {{.has_module = true}};
  const auto json = nlohmann::json::parse(to_json(diagnostic));
  EXPECT_EQ(json.dump(), nlohmann::json::parse(R"({"code": "E0301", "name": "no_converter", "severity": "error",
    "message": "aten::foo.bar", "remedy": "--on-unsupported=domain", "count": 14,
    "where": {"stage": "convert", "module": "encoder.layers.0.attn", "op": "aten::foo.bar", "source": "model.py:88"},
    "more_places": [{"module": ""}]})")
                             .dump());
}

TEST(Diagnostic, JsonReplacesInvalidUtf8) {
  Diagnostic diagnostic = missing_converter();
  diagnostic.message = "\xff";
  EXPECT_EQ(nlohmann::json::parse(to_json(diagnostic))["message"], "\xef\xbf\xbd");
}

TEST(Diagnostic, TheWorstErrorDeterminesTheExitCode) {
  const auto diagnostic = [](Code code, Severity severity) { return Diagnostic{code, severity, "", {}, "", 1, {}}; };
  EXPECT_EQ(exit_code({}), ExitCode::ok);
  EXPECT_EQ(exit_code({diagnostic(Code::internal, Severity::warning)}), ExitCode::ok);
  EXPECT_EQ(exit_code({diagnostic(Code::usage, Severity::error), diagnostic(Code::no_converter, Severity::error),
                       diagnostic(Code::corrupt_file, Severity::error)}),
            ExitCode::unsupported);
}

}  // namespace
}  // namespace whence
