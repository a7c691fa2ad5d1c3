// Annotates and strips complete files.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "annotator/annotation/annotate.h"
#include "annotator/annotation/strip.h"
#include "annotator/origin/keys/origin.h"
#include "tests/annotator/stamped_model.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

using origin::Confidence;
namespace keys = origin::keys;
using annotation::annotate_file;
using annotation::strip_file;

namespace {

using Metadata = std::map<std::string, std::string>;

onnx::ModelProto load(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(content_of(path)));
  return model;
}

void save(const onnx::ModelProto& model, const std::string& path) {
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
}

Metadata metadata(const onnx::NodeProto& node) {
  Metadata result;
  for (const auto& entry : node.metadata_props()) {
    EXPECT_TRUE(result.emplace(entry.key(), entry.value()).second) << "repeated key: " << entry.key();
  }
  return result;
}

void put(onnx::NodeProto& node, std::string_view key, const std::string& value) {
  auto& entry = *node.add_metadata_props();
  entry.set_key(std::string(key));
  entry.set_value(value);
}

class Annotate : public ::testing::Test {
 protected:
  void SetUp() override { write_stamped_file(unannotated); }

  annotation::AnnotateReport annotate(const std::string& from, const std::string& to,
                                      const AnnotateOptions& options = {}) {
    auto result = annotate_file(from, sidecar, to, options);
    EXPECT_TRUE(result) << (result ? "" : to_text(result.diagnostics().front()));
    return result ? *result : annotation::AnnotateReport{};
  }

  Diagnostic refusal(const std::string& from, const AnnotateOptions& options = {}) {
    std::ofstream(folder / "target") << "before";
    const auto result = annotate_file(from, sidecar, folder / "target", options);
    EXPECT_FALSE(result);
    EXPECT_EQ(content_of(folder / "target"), "before");
    EXPECT_FALSE(result.diagnostics().front().remedy.empty());
    return result.diagnostics().front();
  }

  void expect_strip_restores(const std::string& annotated, const std::string& original) {
    ASSERT_TRUE(strip_file(annotated, folder / "stripped.onnx"));
    EXPECT_TRUE(content_of(folder / "stripped.onnx") == content_of(original));
  }

  const TemporaryFolder folder;
  const std::string unannotated = folder / "plain.onnx", out = folder / "out.onnx";
  const Sidecar sidecar = stamped_sidecar();
};

TEST_F(Annotate, WritesEveryKey) {
  annotate(unannotated, out);
  const onnx::ModelProto model = load(out);
  EXPECT_NO_THROW(onnx::checker::check_model(model, true));
  const Metadata keys = metadata(model.graph().node(0));
  EXPECT_EQ(keys.at("pkg.whence.op"), "0");
  EXPECT_EQ(keys.at("pkg.whence.module"), "encoder.layer.0.query");
  EXPECT_EQ(keys.at("pkg.whence.id"), "encoder.layer.0.query/0/linear/0");
  EXPECT_EQ(keys.at("pkg.whence.call"), "0");
  EXPECT_EQ(keys.at("pkg.whence.source"), "layers.py:8 forward");
  EXPECT_EQ(keys.at("pkg.whence.confidence"), "exact");
  EXPECT_EQ(keys.at("pkg.whence.rule"), "stamp");
  EXPECT_EQ(keys.at("namespace"),
            ": my.Model/encoder: my.Encoder/encoder.layer.0: my.Layer/encoder.layer.0.query: "
            "torch.nn.modules.linear.Linear/linear: aten.linear.default");
  EXPECT_EQ(keys.at("pkg.torch.onnx.class_hierarchy"),
            "['my.Model', 'my.Encoder', 'my.Layer', 'torch.nn.modules.linear.Linear', 'aten.linear.default']");
  EXPECT_EQ(keys.at("pkg.torch.onnx.name_scopes"),
            "['', 'encoder', 'encoder.layer.0', 'encoder.layer.0.query', 'linear']");
  EXPECT_EQ(keys.at("pkg.torch.onnx.fx_node"),
            "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default]"
            "(args = (%x, %p_encoder_layer_0_query_weight), kwargs = {})");
  EXPECT_EQ(keys.at("pkg.torch.onnx.stack_trace"),
            "File \"/home/me/model.py\", line 30, in forward\n  File \"/home/me/layers.py\", line 8, in forward");
  EXPECT_FALSE(keys.contains("pkg.whence.modules"));
  EXPECT_FALSE(keys.contains("pkg.whence.kept"));
}

TEST_F(Annotate, MarksSharedAndFusedNodes) {
  const annotation::AnnotateReport report = annotate(unannotated, out);
  EXPECT_EQ(report.nodes.total(), 8);
  EXPECT_EQ(report.nodes[Confidence::exact], 7);
  EXPECT_EQ(report.nodes[Confidence::ancestor], 1);
  EXPECT_EQ(report.renamed, 0) << "export named the nodes";
  const onnx::ModelProto model = load(out);
  const Metadata shared = metadata(model.graph().node(2));
  EXPECT_EQ(shared.at("pkg.whence.module"), "encoder.layer.0");
  EXPECT_EQ(shared.at("pkg.whence.confidence"), "ancestor");
  EXPECT_EQ(shared.at("pkg.whence.rule"), "shared");
  const Metadata fused = metadata(model.graph().node(3));
  EXPECT_EQ(fused.at("pkg.whence.module"), "");
  EXPECT_EQ(fused.at("pkg.whence.modules"), R"(["encoder.layer.0","head"])");
  EXPECT_EQ(fused.at("pkg.whence.primary"), "head") << "its operation is the last, and the node is no product";
  EXPECT_EQ(fused.at("pkg.whence.confidence"), "exact");
}

TEST_F(Annotate, AnnotatesCallsAndBodies) {
  annotate(unannotated, out);
  const onnx::ModelProto model = load(out);
  const Metadata second_call = metadata(model.graph().node(4));
  EXPECT_EQ(second_call.at("pkg.whence.module"), "head");
  EXPECT_EQ(second_call.at("pkg.whence.call"), "1");
  EXPECT_NE(second_call.at("namespace").find("relu_1: aten.relu.default"), std::string::npos);
  const onnx::NodeProto& nested = model.graph().node(5).attribute(1).g().node(0);
  EXPECT_EQ(nested.op_type(), "Abs");
  EXPECT_EQ(metadata(nested).at("pkg.whence.module"), "");
  EXPECT_NE(metadata(nested).at("namespace").find("max_1: aten.max.default"), std::string::npos);
}

TEST_F(Annotate, StripRestoresTheBytes) {
  annotate(unannotated, out);
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, IsIdempotent) {
  annotate(unannotated, out);
  const std::string annotated = content_of(out);
  EXPECT_FALSE(annotate(out, folder / "twice.onnx").changed);
  EXPECT_TRUE(content_of(folder / "twice.onnx") == annotated);
  EXPECT_FALSE(annotate(out, out).changed);
  EXPECT_TRUE(content_of(out) == annotated);
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, AcceptsTheInputAsOutput) {
  const std::string before = content_of(unannotated);
  annotate(unannotated, out);
  annotate(unannotated, unannotated);
  EXPECT_TRUE(content_of(unannotated) == content_of(out));
  ASSERT_TRUE(strip_file(unannotated, unannotated));
  EXPECT_TRUE(content_of(unannotated) == before);
}

TEST_F(Annotate, WritesOnlyRequestedKeys) {
  annotate(unannotated, out, {.keys = {"module", "pkg.torch.onnx.fx_node"}});
  const Metadata keys = metadata(load(out).graph().node(0));
  EXPECT_EQ(keys.size(), 4U);  // with the confidence and the stamp
  expect_strip_restores(out, unannotated);
  annotate(out, folder / "all_keys.onnx");
  EXPECT_GT(metadata(load(folder / "all_keys.onnx").graph().node(0)).size(), 10U);
  expect_strip_restores(folder / "all_keys.onnx", unannotated);
}

TEST_F(Annotate, PreservesForeignMetadata) {
  onnx::ModelProto model = load(unannotated);
  put(*model.mutable_graph()->mutable_node(0), "namespace", "foreign");
  put(*model.mutable_graph()->mutable_node(0), "color", "red");
  put(*model.mutable_graph()->mutable_node(1), keys::module, "claimed");
  save(model, unannotated);
  annotate(unannotated, out);
  const Metadata keys = metadata(load(out).graph().node(0));
  EXPECT_EQ(keys.at("namespace"), "foreign");
  EXPECT_EQ(keys.at("color"), "red");
  EXPECT_EQ(keys.at("pkg.whence.module"), "encoder.layer.0.query");
  EXPECT_EQ(keys.at("pkg.whence.kept"), "namespace");
  EXPECT_EQ(metadata(load(out).graph().node(1)).at("pkg.whence.module"), "claimed");
  expect_strip_restores(out, unannotated);
  EXPECT_FALSE(annotate(out, out).changed);
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, RestoresNodeNames) {
  onnx::ModelProto model = load(unannotated);
  model.mutable_graph()->mutable_node(0)->set_name("n0");
  model.mutable_graph()->mutable_node(1)->clear_name();
  save(model, unannotated);
  EXPECT_EQ(annotate(unannotated, folder / "unnamed.onnx", {.names = false}).renamed, 0);
  EXPECT_EQ(annotate(unannotated, out).renamed, 2);
  model = load(out);
  EXPECT_EQ(model.graph().node(0).name(), "/encoder/layer.0/query/MatMul");
  EXPECT_EQ(model.graph().node(1).name(), "/encoder/layer.0/query/Add");
  EXPECT_EQ(metadata(model.graph().node(0)).at("pkg.whence.original_name"), "n0");
  expect_strip_restores(out, unannotated);
  expect_strip_restores(folder / "unnamed.onnx", unannotated);
}

TEST_F(Annotate, ReportsARaisedIrVersion) {
  onnx::ModelProto model = load(unannotated);
  model.set_ir_version(9);
  save(model, unannotated);
  const auto result = annotate_file(unannotated, sidecar, out, {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result.diagnostics().size(), 1U);
  EXPECT_EQ(result.diagnostics()[0].severity, Severity::note);
  EXPECT_EQ(load(out).ir_version(), 10);
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, MatchesNodesWithoutAStamp) {
  onnx::ModelProto model = load(unannotated);
  model.mutable_graph()->mutable_node(0)->clear_metadata_props();
  save(model, unannotated);
  EXPECT_EQ(annotate(unannotated, out).nodes[Confidence::unattributed], 0);
  const Metadata keys = metadata(load(out).graph().node(0));
  EXPECT_EQ(keys.at("pkg.whence.module"), "encoder.layer.0.query");
  EXPECT_NE(keys.at("pkg.whence.confidence"), "exact");
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, MergesRepeatedKeys) {
  onnx::ModelProto model = load(unannotated);
  model.clear_metadata_props();
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) node.clear_metadata_props();
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  put(node, "color", "red");
  put(node, "namespace", "foreign");
  put(node, "color", "blue, 3,4;");
  put(node, "shape", "round");
  put(node, "namespace", "");
  save(model, unannotated);
  annotate(unannotated, out);
  const onnx::NodeProto annotated = load(out).graph().node(0);
  EXPECT_EQ(metadata(annotated).size(), static_cast<std::size_t>(annotated.metadata_props_size()));
  EXPECT_EQ(metadata(annotated).at("color"), "red");
  EXPECT_EQ(metadata(annotated).at("namespace"), "foreign");
  expect_strip_restores(out, unannotated);
  EXPECT_FALSE(annotate(out, out).changed);
  expect_strip_restores(out, unannotated);
}

TEST_F(Annotate, FindsExternalDataFromAnotherFolder) {
  write_stamped_file(unannotated, {.external_data = true});
  std::filesystem::create_directory(folder / "other");
  annotate(unannotated, out);
  annotate(unannotated, folder / "other/out.onnx");
  EXPECT_EQ(content_of(folder / "other/out.onnx.data"), content_of(folder / "plain.onnx.data"));
  EXPECT_NO_THROW(onnx::checker::check_model(folder / "other/out.onnx", true));
  expect_strip_restores(out, unannotated);
  expect_strip_restores(folder / "other/out.onnx", unannotated);
}

TEST_F(Annotate, RefusesExternalDataOutsideTheFolder) {
  write_stamped_file(unannotated, {.external_data = true});
  onnx::ModelProto model = load(unannotated);
  model.mutable_graph()->mutable_initializer(0)->mutable_external_data(0)->set_value("../secret");
  save(model, unannotated);
  std::filesystem::create_directory(folder / "other");
  const auto result = annotate_file(unannotated, sidecar, folder / "other/out.onnx", {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.diagnostics()[0].code, Code::outside_folder);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "other"));
}

TEST_F(Annotate, MatchesForeignFiles) {
  onnx::ModelProto model = load(unannotated);
  model.clear_metadata_props();
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) node.clear_metadata_props();
  save(model, unannotated);
  const annotation::AnnotateReport report = annotate(unannotated, out);
  EXPECT_EQ(report.nodes[Confidence::exact], 0);
  EXPECT_GT(report.nodes[Confidence::matched], 0);
  EXPECT_EQ(metadata(load(out).graph().node(0)).at("pkg.whence.module"), "encoder.layer.0.query");
  expect_strip_restores(out, unannotated);
  EXPECT_FALSE(annotate(out, out).changed);
}

// For example, the export of a frozen archive has stamps of another program.
TEST_F(Annotate, IgnoresTheStampsOfAnotherProgram) {
  write_stamped_file(unannotated, {.program = "0123456789abcdef"});
  const annotation::AnnotateReport report = annotate(unannotated, out);
  EXPECT_EQ(report.nodes[Confidence::exact], 0);
  EXPECT_GT(report.nodes[Confidence::matched], 0);
  expect_strip_restores(out, unannotated);
  EXPECT_FALSE(annotate(out, out).changed);
}

TEST_F(Annotate, RefusesASecondProgram) {
  write_stamped_file(unannotated, {.program = "0123456789abcdef"});
  annotate(unannotated, out);
  onnx::ModelProto model = load(out);
  for (auto& entry : *model.mutable_metadata_props()) {
    if (entry.key() == "pkg.whence.matched") entry.set_value("fedcba9876543210");
  }
  save(model, folder / "other.onnx");
  const Diagnostic diagnostic = refusal(folder / "other.onnx");
  EXPECT_EQ(diagnostic.code, Code::sidecar_mismatch);
  EXPECT_NE(diagnostic.message.find("fedcba9876543210"), std::string::npos);
  EXPECT_NE(diagnostic.message.find(program_digest(sidecar.program)), std::string::npos);
  EXPECT_NE(diagnostic.remedy.find("whence strip"), std::string::npos);
}

TEST_F(Annotate, RefusesStampsOfUnknownOperations) {
  for (const char* stamp : {"99", "own:1", ""}) {
    onnx::ModelProto model = load(unannotated);
    model.mutable_graph()->mutable_node(0)->mutable_metadata_props(0)->set_value(stamp);
    save(model, folder / "bad.onnx");
    EXPECT_EQ(refusal(folder / "bad.onnx").code, Code::sidecar_mismatch) << stamp;
  }
}

TEST_F(Annotate, RefusesUnknownKeys) { EXPECT_EQ(refusal(unannotated, {.keys = {"modul"}}).code, Code::usage); }

TEST_F(Annotate, DoesNotCrashOnDamagedFiles) {
  const std::string bytes = content_of(unannotated);
  for (std::size_t i = 0; i < bytes.size(); i += 37) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    std::ofstream(folder / "damaged.onnx", std::ios::binary) << damaged;
    (void)annotate_file(folder / "damaged.onnx", sidecar, out, {});
    (void)strip_file(folder / "damaged.onnx", out);
    std::ofstream(folder / "damaged.onnx", std::ios::binary) << bytes.substr(0, i);
    EXPECT_FALSE(annotate_file(folder / "damaged.onnx", sidecar, out, {})) << i;
  }
}

TEST_F(Annotate, StripDoesNotChangeUnannotatedFiles) {
  onnx::ModelProto model = load(unannotated);
  put(*model.mutable_graph()->mutable_node(0), "namespace", "PyTorch's own");
  save(model, unannotated);
  const auto report = strip_file(unannotated, out);
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->changed);
  EXPECT_TRUE(content_of(out) == content_of(unannotated));
}

}  // namespace
}  // namespace whence
