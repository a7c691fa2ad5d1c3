// Reads nodes, sizes and the signature of torch.export archives. The archives have the form of PyTorch 2.13.
#include <fstream>

#include <gtest/gtest.h>

#include "annotator/pt2/argument_text.h"
#include "annotator/pt2/exported_program.h"
#include "schema/json_document.h"
#include "schema/size_text.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

using Texts = std::vector<std::string>;

const std::string length = "Symbol('s0', positive=True, integer=True)";  // the first axis of x

std::string joined(const Texts& texts) {
  std::string result;
  for (const std::string& text : texts) result += (result.empty() ? "" : ",") + text;
  return result;
}

std::string tensor_named(const std::string& name) { return R"({"as_tensor":{"name":")" + name + "\"}}"; }

// Metadata of a float32 tensor. A size is a number, or an expression whose value in the example is 3.
std::string tensor_meta(const Texts& sizes) {
  Texts size_texts, strides;
  for (const std::string& size : sizes) {
    const bool fixed = std::isdigit(static_cast<unsigned char>(size[0])) != 0;
    size_texts.push_back(fixed ? R"({"as_int":)" + size + "}"
                               : R"({"as_expr":{"expr_str":")" + size + R"(","hint":{"as_int":3}}})");
    strides.push_back(R"({"as_int":1})");
  }
  return R"({"dtype":7,"sizes":[)" + joined(size_texts) +
         R"(],"requires_grad":false,"device":{"type":"cpu","index":null},"strides":[)" + joined(strides) +
         R"(],"storage_offset":{"as_int":0},"layout":7})";
}

std::string input(const std::string& name, const std::string& argument) {
  return R"({"name":")" + name + R"(","arg":)" + argument + R"(,"kind":1})";
}

std::string node(const std::string& target, const Texts& inputs, const std::string& output) {
  return R"({"target":"torch.ops.aten.)" + target + R"(","inputs":[)" + joined(inputs) + R"(],"outputs":[)" + output +
         R"(],"metadata":{"nn_module_stack":"L__self__,,__main__.Net;L__self__act,act,torch.nn.ReLU"},"is_hop_single_tensor_return":null})";
}

struct Archive {
  Texts nodes = {};
  std::vector<std::pair<std::string, Texts>> tensors = {{"x", {length, "4"}}};
  std::string sym_ints = "";
  Texts outputs = {tensor_named("y")};
  Texts output_specs = {R"({"user_output":{"arg":{"as_tensor":{"name":"y"}}}})"};
  Texts guards = {};
  int schema = 8;
};

class Pt2Program : public ::testing::Test {
 protected:
  Result<Program> read(const Archive& archive, std::vector<DynamicAxis> dynamic = {}) {
    Texts tensors;
    for (const auto& [name, sizes] : archive.tensors) tensors.push_back("\"" + name + "\":" + tensor_meta(sizes));
    const std::string program =
        R"({"graph_module":{"graph":{"inputs":[)" + tensor_named("x") + R"(],"outputs":[)" + joined(archive.outputs) +
        R"(],"nodes":[)" + joined(archive.nodes) + R"(],"tensor_values":{)" + joined(tensors) +
        R"(},"sym_int_values":{)" + archive.sym_ints +
        R"(},"sym_bool_values":{},"is_single_tensor_return":false,"custom_obj_values":{},"sym_float_values":{}},)" +
        R"("signature":{"input_specs":[{"user_input":{"arg":)" + tensor_named("x") + R"(}}],"output_specs":[)" +
        joined(archive.output_specs) +
        R"(]},"module_call_graph":[{"fqn":"","signature":null},{"fqn":"act","signature":null}],)" +
        R"("metadata":{},"treespec_namedtuple_fields":{}},"opset_version":{"aten":10},"range_constraints":{"s0":{"min_val":2,"max_val":64}},)" +
        R"("schema_version":{"major":)" + std::to_string(archive.schema) +
        R"(,"minor":20},"verifiers":["TRAINING"],"torch_version":"2.13.0","guards_code":[)" + joined(archive.guards) +
        "]}";
    std::ofstream(folder_ / "p.pt2", std::ios::binary)
        << fuzz::stored_zip({{"p/archive_format", "pt2"},
                             {"p/archive_version", "0"},
                             {"p/byteorder", "little"},
                             {"p/models/model.json", program},
                             {"p/data/weights/model_weights_config.json", "{\"config\":{}}"},
                             {"p/data/constants/model_constants_config.json", "{\"config\":{}}"}});
    ReadOptions options;
    options.path = folder_ / "p.pt2";
    options.dynamic = std::move(dynamic);
    return pt2::read_exported_program(options);
  }
  Program require(const Archive& archive) {
    auto program = read(archive);
    EXPECT_TRUE(program) << (program ? "" : to_text(program.diagnostics().front()));
    return std::move(*program);
  }
  Code refusal_code(const Archive& archive) {
    const auto program = read(archive);
    EXPECT_FALSE(program);
    return program ? Code::internal : program.diagnostics().front().code;
  }

  TemporaryFolder folder_;
  // relu(x) with x [s0, 4]
  Archive relu_ = {.nodes = {node("relu.default", {input("self", tensor_named("x"))}, tensor_named("y"))},
                   .tensors = {{"x", {length, "4"}}, {"y", {length, "4"}}}};
};

std::string sizes_text(const Program& program, ValueId id) {
  std::string text;
  for (const Dim& dim : program.values[id].type.dims.value()) {
    text += (text.empty() ? "" : ",") +
            (dim.dynamic ? dim.symbol == none_id ? "?" : program.symbols[dim.symbol].name : std::to_string(dim.size));
  }
  return text;
}

TEST_F(Pt2Program, ReadsNodesSizesAndModules) {
  const Program program = require(relu_);
  ASSERT_EQ(program.body.nodes.size(), 1u);
  const Node& relu = program.body.nodes[0];
  EXPECT_EQ(qualified(relu), "aten::relu");  // without the overload "default"
  EXPECT_EQ(sizes_text(program, relu.outputs[0]), "s0,4");
  EXPECT_EQ(program.module_path(relu.origin.scope), "act");
  EXPECT_EQ(program.inputs.at(0).name, "x");
  EXPECT_EQ(*program.outputs.at(0).value.as<ValueRef>(), (ValueRef{relu.outputs[0]}));
  EXPECT_TRUE(program.ran);
  EXPECT_EQ(program.symbols[SymbolId(0)].min, 2);
  EXPECT_EQ(program.symbols[SymbolId(0)].max, 64);
}

TEST_F(Pt2Program, OperatorsHaveTheNamesOfTorchScript) {
  Archive archive = relu_;
  archive.sym_ints = R"("n":{"as_expr":{"expr_str":")" + length + R"(","hint":{"as_int":3}}})";
  archive.nodes = {node("sym_size.int", {input("self", tensor_named("x")), input("dim", R"({"as_int":0})")},
                        R"({"as_sym_int":{"as_name":"n"}})"),
                   node("lift_fresh_copy.default", {input("self", tensor_named("x"))}, tensor_named("y"))};
  const Program program = require(archive);
  ASSERT_EQ(program.body.nodes.size(), 2u);
  EXPECT_EQ(qualified(program.body.nodes[0]), "aten::size.int");
  EXPECT_EQ(program.body.nodes[1].target, "aten::clone");
}

TEST_F(Pt2Program, DefaultsComeFromTheSchema) {
  Archive archive = relu_;
  archive.nodes = {
      node("add.Tensor", {input("self", tensor_named("x")), input("other", tensor_named("x"))}, tensor_named("y"))};
  const Program program = require(archive);
  const Argument* alpha = program.body.nodes.at(0).find("alpha");
  ASSERT_NE(alpha, nullptr);
  EXPECT_EQ(*alpha, Argument{std::int64_t{1}});
}

TEST_F(Pt2Program, StateWriteBackIsReported) {
  const auto notes = [&](const std::string& spec) {
    Archive archive = relu_;
    archive.output_specs.insert(archive.output_specs.begin(), spec);
    archive.outputs.insert(archive.outputs.begin(), tensor_named("y"));
    auto program = read(archive);
    EXPECT_TRUE(program) << (program ? "" : to_text(program.diagnostics().front()));
    EXPECT_EQ(program->outputs.size(), 1u);
    std::string text;
    for (const Diagnostic& note : program.diagnostics()) text += label(note.code) + " " + note.message + "\n";
    return text;
  };
  const std::string state = label(Code::state_not_kept);
  EXPECT_NE(notes(R"({"buffer_mutation":{"arg":{"name":"y"},"buffer_name":"count"}})").find("count"),
            std::string::npos);
  EXPECT_NE(notes(R"({"parameter_mutation":{"arg":{"name":"y"},"parameter_name":"weight"}})").find("weight"),
            std::string::npos);
  EXPECT_TRUE(notes(R"({"user_input_mutation":{"arg":{"name":"y"},"user_input_name":"x"}})").starts_with(state));
}

TEST_F(Pt2Program, GuardsBecomeConstraints) {
  Archive archive = relu_;
  archive.guards = {R"("L['x'].size()[0] < 40")"};
  const auto program = read(archive);
  ASSERT_TRUE(program) << to_text(program.diagnostics().front());
  const auto holds_at = [&](std::int64_t size) {
    return std::ranges::all_of(program->constraints, [&](const Constraint& constraint) {
      return holds(constraint, [&](SymbolId) { return std::optional(size); }) != false;
    });
  };
  EXPECT_TRUE(holds_at(3));
  EXPECT_FALSE(holds_at(50));
}

TEST_F(Pt2Program, InvalidArchivesAreRefused) {
  Archive archive = relu_;
  archive.schema = 9;
  EXPECT_EQ(refusal_code(archive), Code::newer_version);
  archive.schema = 7;
  EXPECT_EQ(refusal_code(archive), Code::unsupported_feature);
  archive = relu_;
  archive.nodes = {node("relu.default", {input("self", tensor_named("z"))}, tensor_named("y"))};
  EXPECT_EQ(refusal_code(archive), Code::corrupt_file);
  archive = relu_;
  archive.tensors.pop_back();
  EXPECT_EQ(refusal_code(archive), Code::corrupt_file);
  archive = relu_;
  archive.nodes = {node("relu", {input("self", tensor_named("x"))}, tensor_named("y"))};  // no overload
  EXPECT_EQ(refusal_code(archive), Code::corrupt_file);
  archive = relu_;
  archive.output_specs = {R"({"user_output":{"arg":{"as_tensor":{"name":"z"}}}})"};
  EXPECT_EQ(refusal_code(archive), Code::corrupt_file);
}

TEST(Pt2Arguments, AreWrittenLikeTorchFx) {
  const auto text = [](const std::string& json) {
    const auto document = JsonDocument::parse(json);
    const pt2::Reading reading{"a.pt2", "node"};
    return pt2::argument_text(pt2::Part(*document, reading), [](const pt2::Part& name) { return "%" + name.text(); });
  };
  const std::pair<const char*, const char*> cases[] = {
      {R"({"as_tensor":{"name":"x"}})", "%x"},
      {R"({"as_tensors":[{"name":"x"},{"name":"y"}]})", "[%x, %y]"},
      {R"({"as_none":[]})", "None"},
      {R"({"as_int":-3})", "-3"},
      {R"({"as_float":2.0})", "2.0"},
      {R"({"as_float":"Infinity"})", "inf"},
      {R"({"as_bool":true})", "True"},
      {R"({"as_ints":[1,2]})", "[1, 2]"},
      {R"({"as_sym_ints":[{"as_int":4},{"as_name":"n"}]})", "[4, %n]"},
      {R"({"as_optional_tensors":[{"as_none":[]},{"as_tensor":{"name":"x"}}]})", "[None, %x]"},
      {R"({"as_int_lists":[[1],[2,3]]})", "[[1], [2, 3]]"},
      {R"({"as_device":{"type":"cuda","index":1}})", "cuda:1"},
      {R"({"as_device":{"type":"cpu","index":null}})", "cpu"},
      {R"({"as_scalar_type":7})", "torch.float32"},
      {R"({"as_complex":{"real":0,"imag":2}})", "2j"},
      {R"({"as_complex":{"real":1.5,"imag":-2}})", "(1.5-2j)"}};
  for (const auto& [json, expected] : cases) EXPECT_EQ(text(json), expected) << json;
  EXPECT_THROW(text(R"({"as_int":"3"})"), Error);
  EXPECT_THROW(text(R"({"as_int":1,"as_float":1})"), Error);
}

}  // namespace
}  // namespace whence
