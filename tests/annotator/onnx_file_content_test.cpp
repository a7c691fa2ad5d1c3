// Detects other kinds of files by their first bytes. Also: reads the bytes of tensors from any field.
#include <gtest/gtest.h>

#include "annotator/onnx_file/other_kinds.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "tests/annotator/parsed_model.h"

namespace whence {

using onnx_file::begins_as_onnx;
using onnx_file::other_kind;
using std::string_view_literals::operator""sv;

namespace {

std::string kind_of(std::string_view bytes) {
  const auto kind = other_kind(bytes);
  return kind ? std::string(kind->description) : "";
}

TEST(OtherKinds, AreDetectedByTheirFirstBytes) {
  EXPECT_EQ(kind_of("PK\x03\x04..."), "a zip archive");
  EXPECT_EQ(kind_of("{\"a\": 1}"), "JSON");
  EXPECT_EQ(kind_of("\x1f\x8b\x08"sv), "compressed by gzip");
  EXPECT_EQ(kind_of("....ORTM"), "a model in ONNX Runtime's own format");
  EXPECT_EQ(kind_of("plain words\n"), "text");
  EXPECT_EQ(kind_of("ab\x01"), "");
  EXPECT_EQ(kind_of("\x02\0\0\0\0\0\0\0{}"sv), "weights in the safetensors format");
}

TEST(OtherKinds, IncludePicklesOfProtocolsTwoToFive) {
  const std::string pickle = "a pickle, as torch.save writes";
  EXPECT_EQ(kind_of("\x80\x02}"), pickle);
  EXPECT_EQ(kind_of("\x80\x05}"), pickle);
  EXPECT_NE(kind_of("\x80\x01}"), pickle);
  EXPECT_NE(kind_of("\x80\x06}"), pickle);
  EXPECT_NE(kind_of("\x80\x02"), pickle);
}

TEST(OtherKinds, OnnxFilesStartWithAModelField) {
  EXPECT_TRUE(begins_as_onnx("\x08\x0a"));
  EXPECT_TRUE(begins_as_onnx("\x3a\x05"));
  EXPECT_FALSE(begins_as_onnx("\x01"));
  EXPECT_FALSE(begins_as_onnx(""));
}

TEST(TensorBytes, AreReadFromAnyField) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.mutable_graph()->set_name("g");
  const auto add = [&](int type, auto fill) {
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("t" + std::to_string(model.graph().initializer_size()));
    tensor.set_data_type(type);
    tensor.add_dims(2);
    fill(tensor);
  };
  add(onnx::TensorProto::FLOAT, [](onnx::TensorProto& t) {
    t.add_float_data(1);
    t.add_float_data(-2);
  });
  add(onnx::TensorProto::INT64, [](onnx::TensorProto& t) {
    t.add_int64_data(3);
    t.add_int64_data(-4);
  });
  add(onnx::TensorProto::INT8, [](onnx::TensorProto& t) {
    t.add_int32_data(5);
    t.add_int32_data(-6);
  });
  add(onnx::TensorProto::FLOAT16, [](onnx::TensorProto& t) {
    t.add_int32_data(0x3c00);
    t.add_int32_data(0xc000);
  });
  add(onnx::TensorProto::DOUBLE, [](onnx::TensorProto& t) {
    t.add_double_data(7);
    t.add_double_data(8);
  });
  add(onnx::TensorProto::FLOAT, [](onnx::TensorProto& t) { t.set_raw_data("abcdefgh"); });
  const TemporaryFolder folder;
  const onnx_file::OnnxSummary summary = summary_of(model, folder);
  onnx_file::TensorBytes bytes(folder / "match.onnx");
  std::string buffer;  // shared by all calls
  const auto bytes_of = [&](std::size_t i) { return std::string(bytes.of(summary.graph.initializers.at(i), buffer)); };
  const auto as_bytes = [](const auto&... numbers) {
    std::string text;
    ((text += std::string(reinterpret_cast<const char*>(&numbers), sizeof numbers)), ...);
    return text;
  };
  EXPECT_EQ(bytes_of(0), as_bytes(1.0F, -2.0F));
  EXPECT_EQ(bytes_of(1), as_bytes(std::int64_t{3}, std::int64_t{-4}));
  EXPECT_EQ(bytes_of(2), as_bytes(std::int8_t{5}, std::int8_t{-6}));
  EXPECT_EQ(bytes_of(3), as_bytes(std::uint16_t{0x3c00}, std::uint16_t{0xc000}));
  EXPECT_EQ(bytes_of(4), as_bytes(7.0, 8.0));
  EXPECT_EQ(bytes_of(5), "abcdefgh");
}

}  // namespace
}  // namespace whence
