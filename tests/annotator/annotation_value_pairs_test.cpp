// Reads pairs of ONNX values and equal recorded results. Also: files that already have metadata.
#include "annotator/annotation/annotate.h"
#include "annotator/annotation/value_pairs.h"
#include "annotator/metadata/attribution.h"
#include "annotator/origin/keys/program.h"
#include "tests/annotator/parsed_model.h"
#include "tests/annotator/stamped_summary.h"
#include "tests/schema/expect_error.h"

namespace whence {

namespace keys = origin::keys;

namespace {

class ValuePairs : public StampedFileTest {
 protected:
  std::vector<match::EqualValue> read(const std::string& pairs, const std::string& version = "1",
                                      std::string program = "") {
    if (program.empty()) program = program_digest(sidecar.program);
    std::ofstream(folder / "pairs.json") << R"({"format":"whence-value-pairs","version":)" << version
                                         << R"(,"program":")" << program << R"(","pairs":)" << pairs << "}";
    return annotation::read_value_pairs(folder / "pairs.json", sidecar.program);
  }
};

TEST_F(ValuePairs, NameOperationsAndTheirResults) {
  const auto pairs = read(R"([{"value":"h","operation":3,"output":0},{"value":"k","operation":0,"output":0}])");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].name, "h");
  EXPECT_EQ(pairs[0].unit, match::UnitIndex(3));
  EXPECT_EQ(pairs[1].unit, match::UnitIndex(0));
  EXPECT_TRUE(read("[]").empty());
}

TEST_F(ValuePairs, AreRefusedIfDamagedOrFromAnotherProgram) {
  expect_error(Code::sidecar_mismatch, [&] { read("[]", "1", "0123"); });
  expect_error(Code::newer_version, [&] { read("[]", "2"); });
  expect_error(Code::wrong_kind, [&] { read("{}"); });
  expect_error(Code::wrong_kind, [&] { read("[]", "0"); });
  for (const char* const pair :
       {R"([{"value":"h","operation":5,"output":0}])", R"([{"value":"h","operation":0,"output":1}])",
        R"([{"value":1,"operation":0,"output":0}])", R"([{"operation":0,"output":0}])",
        R"([{"value":"h","operation":-1,"output":0}])", "[1]"}) {
    expect_error(Code::corrupt_file, [&] { read(pair); });
  }
}

class StampedProgram : public ::testing::Test {
 protected:
  std::string program_of(const std::vector<std::pair<std::string_view, std::string>>& metadata) {
    onnx::ModelProto model =
        parse_model("<ir_version: 10, opset_import: [\"\" : 20]> g (float x) => (float y) { y = Neg (x) }");
    for (const auto& [key, value] : metadata) {
      auto& entry = *model.add_metadata_props();
      entry.set_key(std::string(key));
      entry.set_value(value);
    }
    const TemporaryFolder folder;
    const onnx_file::OnnxSummary summary = summary_of(model, folder);
    return std::string(metadata::stamped_program(summary).value_or("none"));
  }
};

TEST_F(StampedProgram, IsTheLastMatchedProgram) {
  EXPECT_EQ(program_of({}), "none");
  EXPECT_EQ(program_of({{keys::program, "p"}}), "p");
  EXPECT_EQ(program_of({{keys::program, "p"}, {keys::stamped, "s"}}), "s");
  EXPECT_EQ(program_of({{keys::program, "p"}, {keys::stamped, "s"}, {keys::matched, "m"}}), "m");
  // Matches by names, a file or weights have no program.
  EXPECT_EQ(program_of({{keys::program, "p"}, {keys::matched, "names"}}), "p");
  EXPECT_EQ(program_of({{keys::program, "p"}, {keys::matched, "file:abc"}}), "p");
  EXPECT_EQ(program_of({{keys::matched, "weights:abc"}}), "none");
}

TEST_F(ValuePairs, AFileAnnotatedFromAnotherSidecarIsRefused) {
  ASSERT_TRUE(annotation::annotate_file(path, sidecar, folder / "once.onnx", {}));
  Sidecar other = stamped_sidecar();
  other.program.body.nodes[2].target = "aten::neg";
  const auto refused = annotation::annotate_file(folder / "once.onnx", other, folder / "twice.onnx", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.diagnostics().front().code, Code::sidecar_mismatch);
  const auto accepted = annotation::annotate_file(folder / "once.onnx", sidecar, folder / "twice.onnx", {});
  ASSERT_TRUE(accepted);
  EXPECT_FALSE(accepted->changed);
}

}  // namespace
}  // namespace whence
