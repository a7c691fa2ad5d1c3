// Writes edited copies of a file (annotator/onnx_file/file_pieces), and finds the names of its data files.
#include <fstream>
#include <sstream>

#include "annotator/onnx_file/data_locations.h"
#include "annotator/onnx_file/file_pieces.h"
#include "tests/annotator/parsed_model.h"

namespace whence {

using onnx_file::data_locations_in;
using onnx_file::FilePieces;

namespace {

class FilePiecesTest : public ::testing::Test {
 protected:
  // Writes a file with "head", a field 1 that contains "one" and "two", and "tail".
  FilePiecesTest() : path_(folder_ / "before") {
    std::ofstream(path_, std::ios::binary) << "head\x0a\x06onetwotail";
    file_ = MappedFile::open(path_);
    text_ = file_->text();
  }

  std::string output_of(const FilePieces& pieces) {
    AtomicFile file(folder_ / "after");
    pieces.write(file);
    file.commit();
    std::ostringstream content;
    content << std::ifstream(folder_ / "after", std::ios::binary).rdbuf();
    EXPECT_EQ(content.str().size(), pieces.size());
    return content.str();
  }

  TemporaryFolder folder_;
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::string_view text_;
};

TEST_F(FilePiecesTest, CopiesUnchangedParts) {
  FilePieces pieces(file_);
  pieces.copy(text_.substr(0, 4));
  pieces.begin(1, text_.substr(4, 8));
  pieces.copy(text_.substr(6, 3));
  pieces.copy(text_.substr(9, 3));
  pieces.end();
  pieces.copy(text_.substr(12));
  EXPECT_EQ(output_of(pieces), text_);
}

TEST_F(FilePiecesTest, ComputesLengthsOfNestedMessages) {
  FilePieces pieces(file_);
  pieces.begin(2, {});
  pieces.put("new");
  pieces.begin(1, text_.substr(4, 8));
  pieces.copy(text_.substr(6, 3));
  pieces.put(std::string(200, 'x'));
  pieces.copy(text_.substr(9, 3));
  pieces.end();
  pieces.begin(3, {});
  pieces.end();
  pieces.end();
  const std::string inner = "one" + std::string(200, 'x') + "two";
  const std::string outer = "new\x0a\xce\x01" + inner + std::string("\x1a\x00", 2);
  EXPECT_EQ(inner.size(), 0xceU);
  EXPECT_EQ(output_of(pieces), "\x12\xd6\x01" + outer);
}

// The first part ends before the end of its field, and the second part begins after the start of its field.
TEST_F(FilePiecesTest, WritesAFieldHeaderForAPartOfAMessage) {
  for (const auto& [start, content] : {std::pair(6, std::string("one")), std::pair(9, std::string("two"))}) {
    FilePieces pieces(file_);
    pieces.begin(1, text_.substr(4, 8));
    pieces.copy(text_.substr(static_cast<std::size_t>(start), 3));
    pieces.end();
    EXPECT_EQ(output_of(pieces), "\x0a\x03" + content);
  }
}

TEST_F(FilePiecesTest, InsertsBytesOfAnySize) {
  FilePieces pieces(file_);
  std::string expected;
  for (int i = 0; i < 5; ++i) {
    const std::string text(700'000, static_cast<char>('a' + i));
    pieces.put(text);
    pieces.copy(text_.substr(0, 4));
    expected += text + "head";
  }
  EXPECT_EQ(output_of(pieces), expected);
}

void store_outside(onnx::TensorProto& tensor, const std::string& location) {
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(1);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value(location);
}

TEST(DataLocations, AreFoundInEveryTensor) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  auto& graph = *model.mutable_graph();
  store_outside(*graph.add_initializer(), "initializer.bin");
  store_outside(*graph.add_initializer(), "initializer.bin");
  store_outside(*graph.add_sparse_initializer()->mutable_values(), "values.bin");
  store_outside(*graph.mutable_sparse_initializer(0)->mutable_indices(), "indices.bin");
  store_outside(*graph.add_node()->add_attribute()->mutable_t(), "attribute.bin");
  auto& body = *graph.add_node()->add_attribute()->mutable_g();
  store_outside(*body.add_initializer(), "body.bin");
  store_outside(*body.add_node()->add_attribute()->add_tensors(), "list.bin");
  store_outside(*model.add_functions()->add_node()->add_attribute()->mutable_t(), "function.bin");
  auto& inside = *graph.add_initializer();
  store_outside(inside, "inside.bin");
  inside.set_data_location(onnx::TensorProto::DEFAULT);
  const TemporaryFolder folder;
  const std::string path = folder / "model.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  const std::set<std::string> expected = {"attribute.bin",   "body.bin", "function.bin", "indices.bin",
                                          "initializer.bin", "list.bin", "values.bin"};
  EXPECT_EQ(data_locations_in(path), expected);
}

TEST(DataLocations, AreEmptyIfTheFileIsNotAModel) {
  const TemporaryFolder folder;
  EXPECT_TRUE(data_locations_in(folder / "missing.onnx").empty());
  std::ofstream(folder / "other.onnx") << "PK\x03\x04 an archive";
  EXPECT_TRUE(data_locations_in(folder / "other.onnx").empty());
}

}  // namespace
}  // namespace whence
