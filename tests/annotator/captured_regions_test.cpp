// The modules of nodes in calls of a region that modules share, in files of PyTorch's exporter, and the renaming of
// modules that it rests on. tests/views/test_captured_regions.py tests complete files.
#include <fstream>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/module_renames.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

using origin::Confidence;
using origin::ModuleRenames;

TEST(ModuleRenames, IncludeTheModulesAroundAndInside) {
  ModuleRenames renames;
  renames.add("layers.0.fc", "layers.2.fc");
  EXPECT_EQ(renames.at("layers.0.fc"), "layers.2.fc");
  EXPECT_EQ(renames.at("layers.0"), "layers.2");
  EXPECT_EQ(renames.at("layers.0.act"), "layers.2.act");
  EXPECT_EQ(renames.at("layers.1"), std::nullopt);
  EXPECT_EQ(renames.at("layers"), std::nullopt);
  EXPECT_EQ(renames.at(""), std::nullopt);
  // Only modules inside the scope count.
  EXPECT_EQ(renames.at("layers.0.act", "layers.0"), std::nullopt);
  EXPECT_EQ(renames.at("layers.0.fc", "layers.0"), "layers.2.fc");
}

TEST(ModuleRenames, AreUnknownIfParametersContradictEachOther) {
  ModuleRenames renames;
  renames.add("a.fc", "b.fc");
  renames.add("a.norm", "c.norm");
  EXPECT_EQ(renames.at("a"), std::nullopt);
  EXPECT_EQ(renames.at("a.fc"), "b.fc");
  EXPECT_EQ(renames.all("a.x"), (std::set<std::string>{"b.x", "c.x"}));
}

class RegionFile {
 public:
  RegionFile() {
    model_.set_ir_version(10);
    model_.add_opset_import()->set_version(20);
    model_.mutable_graph()->set_name("g");
  }

  void parameter(const std::string& name) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(1);
    tensor.add_float_data(1);
  }

  // Adds a node of the fx node `fx_name`, which reads `fx_inputs`, in `module` of a captured graph.
  void node(const std::string& op_type, const std::vector<std::string>& inputs, const std::string& output,
            const std::string& module, const std::string& fx_name, const std::string& fx_inputs) {
    onnx::NodeProto& proto = *model_.mutable_graph()->add_node();
    proto.set_op_type(op_type);
    proto.set_name(output);
    for (const std::string& input : inputs) proto.add_input(input);
    proto.add_output(output);
    const auto key = [&](const std::string& name, const std::string& value) {
      onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
      entry.set_key(name);
      entry.set_value(value);
    };
    key("pkg.torch.onnx.name_scopes", "['', '_export_root', '_export_root." + module + "', '" + fx_name + "']");
    key("pkg.torch.onnx.class_hierarchy", "['Net', 'Net', 'Block', 'aten.x.default']");
    key("pkg.torch.onnx.fx_node", "%" + fx_name +
                                      " : [num_users=1] = call_function[target=torch.ops.aten.x.default](args = (" +
                                      fx_inputs + "), kwargs = {})");
  }

  // Returns "module confidence" of each node.
  std::vector<std::string> origins() const {
    const TemporaryFolder folder;
    const std::string path = folder / "m.onnx";
    std::ofstream(path, std::ios::binary) << model_.SerializeAsString();
    const auto summary = onnx_file::read_onnx_summary(path);
    std::vector<std::string> rows;
    for (const onnx_file::OnnxNode& each : summary->graph.nodes) {
      const metadata::Attribution attribution = metadata::attribution_of(each, nullptr);
      rows.push_back(attribution.module + " " + std::string(origin::name_of(attribution.confidence)));
    }
    return rows;
  }

 private:
  onnx::ModelProto model_;
};

// Two calls of a block: a product with a parameter of the block, then an activation.
RegionFile two_calls(const std::string& first, const std::string& second) {
  RegionFile file;
  file.parameter(first);
  if (second != first) file.parameter(second);
  file.node("MatMul", {"x", first}, "p0", "layers.0", "linear", "%arg0_1, %arg1_1");
  file.node("Relu", {"p0"}, "y0", "layers.0", "relu", "%linear");
  file.node("MatMul", {"y0", second}, "p1", "layers.0", "linear", "%arg0_1, %arg1_1");
  file.node("Relu", {"p1"}, "y1", "layers.0", "relu", "%linear");
  return file;
}

TEST(CapturedRegions, HaveTheModulesOfTheParametersOfTheirCall) {
  EXPECT_EQ(
      two_calls("layers.0.w", "layers.1.w").origins(),
      (std::vector<std::string>{"layers.0 inferred", "layers.0 inferred", "layers.1 inferred", "layers.1 inferred"}));
}

TEST(CapturedRegions, WithoutParametersAreSomewhereInTheModel) {
  RegionFile file;
  for (const char* call : {"0", "1"}) {
    file.node("Tanh", {std::string("x") + call}, std::string("t") + call, "h", "tanh", "%arg0_1");
  }
  EXPECT_EQ(file.origins(), (std::vector<std::string>{" ancestor", " ancestor"}));
}

TEST(CapturedRegions, AreSeparateAlongAResidualPath) {
  RegionFile file;
  for (const char* name : {"layers.0.fc.w", "layers.1.fc.w"}) file.parameter(name);
  for (const std::string call : {"0", "1"}) {
    const std::string before = call == "0" ? "x" : "y0";
    file.node("MatMul", {before, "layers." + call + ".fc.w"}, "p" + call, "layers.0.fc", "linear", "%arg0_1, %arg1_1");
    file.node("Add", {before, "p" + call}, "y" + call, "layers.0", "add", "%arg0_1, %linear");
  }
  EXPECT_EQ(file.origins(), (std::vector<std::string>{"layers.0.fc inferred", "layers.0 inferred",
                                                      "layers.1.fc inferred", "layers.1 inferred"}));
}

TEST(CapturedRegions, WithEqualWeightsStoredOnceAreAncestors) {
  RegionFile file;
  for (const char* name : {"layers.0.norm.w", "layers.0.fc.w", "layers.1.fc.w"}) file.parameter(name);
  for (const std::string call : {"0", "1"}) {
    file.node("Mul", {"x" + call, "layers.0.norm.w"}, "n" + call, "layers.0.norm", "mul", "%arg0_1, %arg1_1");
    file.node("MatMul", {"n" + call, "layers." + call + ".fc.w"}, "p" + call, "layers.0.fc", "linear", "%mul, %arg2_1");
  }
  EXPECT_EQ(file.origins(), (std::vector<std::string>{"layers.0.norm inferred", "layers.0.fc inferred",
                                                      "layers ancestor", "layers ancestor"}));
}

}  // namespace
}  // namespace whence
