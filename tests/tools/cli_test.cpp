// Tests the helpers of the command line: sizes, usage errors, descriptions.
#include "tools/whence/cli.h"

#include <gtest/gtest.h>

#include "tools/whence/description.h"

namespace whence {
namespace {

TEST(HumanSize, RoundsToOneDecimal) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(999), "999 B");
  EXPECT_EQ(human_size(1000), "1.0 kB");
  EXPECT_EQ(human_size(17'600'000), "17.6 MB");
  EXPECT_EQ(human_size(2'500'000'000), "2.5 GB");
}

// Owns the strings of an argv.
struct Arguments {
  explicit Arguments(std::vector<std::string> words) : texts(std::move(words)) {
    for (std::string& text : texts) pointers.push_back(text.data());
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

struct DemoLine : CommandLine {
  DemoLine() : CommandLine("demo", "FILE [-o FILE]", "A demonstration.") {
    positional("file", "what to read");
    option("output,o", "FILE", "what to write");
    option("opset", "N", "a number");
    repeated("input", "SPEC", "several");
  }
};

Diagnostic refusal(const std::vector<std::string>& words) {
  Arguments arguments(words);
  DemoLine line;
  try {
    line.parse(static_cast<int>(arguments.pointers.size()), arguments.pointers.data());
    line.integer_or("opset", 0);
    line.text("output");
  } catch (const Error& error) {
    return error.diagnostics().front();
  }
  return {};
}

TEST(CommandLine, ReadsOptionsInAnyOrder) {
  Arguments arguments({"--input", "a", "in.pt", "-o", "out.onnx", "--input=b", "--opset=18", "--json"});
  DemoLine line;
  ASSERT_TRUE(line.parse(static_cast<int>(arguments.pointers.size()), arguments.pointers.data()));
  EXPECT_EQ(line.text("file"), "in.pt");
  EXPECT_EQ(line.text("output"), "out.onnx");
  EXPECT_EQ(line.list("input"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(line.integer_or("opset", 0), 18);
  EXPECT_TRUE(line.json());
}

TEST(CommandLine, RefusesWithARemedy) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
    const char* remedy;
  } rows[] = {
      {{"in.pt", "--ouput", "x"}, "unknown option --ouput", "did you mean --output?"},
      {{"in.pt", "--out", "x"}, "unknown option --out", "did you mean --output?"},
      {{"in.pt", "--frobnicate"}, "unknown option --frobnicate", "--help"},
      {{}, "missing argument: file", "usage: whence demo"},
      {{"in.pt"}, "missing option --output", "usage: whence demo"},
      {{"in.pt", "-o"}, "required argument", "usage: whence demo"},
      {{"in.pt", "more.pt", "-o", "x"}, "too many arguments", "usage: whence demo"},
      {{"in.pt", "-o", "x", "--opset", "eighteen"}, "--opset takes an integer", "whole number"},
      {{"in.pt", "-o", "x", "--opset", "18x"}, "--opset takes an integer", "whole number"},
  };
  for (const auto& row : rows) {
    const Diagnostic diagnostic = refusal(row.arguments);
    EXPECT_EQ(diagnostic.code, Code::usage) << row.message;
    EXPECT_NE(diagnostic.message.find(row.message), std::string::npos) << diagnostic.message;
    EXPECT_NE(diagnostic.remedy.find(row.remedy), std::string::npos) << diagnostic.remedy;
  }
}

ExitCode run_demo(int argc, char** argv) {
  DemoLine line;
  line.choices("opset", {"20", "21"});
  line.example("whence demo in.pt -o out");
  return line.parse(argc, argv) ? ExitCode::findings : ExitCode::ok;
}

TEST(CommandLine, DescribesItsDeclarations) {
  const CommandDescription demo = describe({"demo", "a demonstration", run_demo});
  EXPECT_EQ(demo.name, "demo");
  EXPECT_EQ(demo.summary, "a demonstration");
  EXPECT_EQ(demo.usage, "FILE [-o FILE]");
  ASSERT_EQ(demo.arguments.size(), 1U);
  EXPECT_TRUE(demo.arguments.front().is_file);
  std::vector<std::string> options;
  for (const auto& option : demo.options) {
    std::string text = option.name + "/" + option.letter + "/" + option.placeholder;
    for (const std::string& word : option.choices) text += "/" + word;
    options.push_back(text + (option.repeated ? "..." : ""));
  }
  EXPECT_EQ(options,
            (std::vector<std::string>{"help/h/", "json//", "output/o/FILE", "opset//N/20/21", "input//SPEC..."}));
  EXPECT_EQ(demo.examples, std::vector<std::string>{"whence demo in.pt -o out"});
}

TEST(CommandLine, ParsesAfterItsDescription) {
  describe({"demo", "a demonstration", run_demo});
  Arguments arguments({"in.pt", "-o", "out"});
  EXPECT_EQ(run_demo(static_cast<int>(arguments.pointers.size()), arguments.pointers.data()), ExitCode::findings);
}

}  // namespace
}  // namespace whence
