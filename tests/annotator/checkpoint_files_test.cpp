// Selects the files of a checkpoint folder, reads shards, and removes the prefixes that training adds to names.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "annotator/checkpoint/checkpoint.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

using checkpoint::CheckpointTensor;
using checkpoint::read_checkpoint;

namespace {

using Texts = std::vector<std::string>;

class CheckpointFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  // Writes a safetensors file with one byte for each name.
  void write_weights(const std::string& name, const Texts& tensors) {
    std::string header = "{";
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      header += (i == 0 ? "\"" : ",\"") + tensors[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                std::to_string(i) + "," + std::to_string(i + 1) + "]}";
    }
    header += "}";
    std::string length{static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
    write(name, length + std::string(6, '\0') + header + std::string(tensors.size(), 'x'));
  }
  Texts names(const std::string& path = "") {
    Texts result;
    for (const CheckpointTensor& tensor :
         read_checkpoint(path.empty() ? folder_.path().string() : folder_ / path, notes_)) {
      result.push_back(tensor.name);
    }
    return result;
  }

  TemporaryFolder folder_;
  Diagnostics notes_;
};

TEST_F(CheckpointFiles, PrefersStandardFileNames) {
  write_weights("adapter_model.safetensors", {"adapter"});
  write_weights("zzz.safetensors", {"other"});
  EXPECT_EQ(names(), Texts{"adapter"});
  write_weights("model.safetensors", {"model"});
  EXPECT_EQ(names(), Texts{"model"});
}

TEST_F(CheckpointFiles, ReadsASingleFileWithAnotherName) {
  write("config.json", "{}");
  write("notes.txt", "x");
  expect_error(Code::missing_file, [&] { names(); });
  for (const char* const ending : {".safetensors", ".bin", ".pt", ".pth", ".ckpt"}) {
    write_weights(std::string("weights") + ending, {"w"});
    EXPECT_EQ(names(), Texts{"w"}) << ending;
    std::filesystem::remove(folder_ / (std::string("weights") + ending));
  }
  write_weights("a.pt", {"w"});
  write_weights("b.pth", {"w"});
  expect_error(Code::missing_file, [&] { names(); });
}

TEST_F(CheckpointFiles, ReadsShardsInTheOrderOfTheIndex) {
  write_weights("one.safetensors", {"a", "b"});
  write_weights("two.safetensors", {"c"});
  write("model.safetensors.index.json",
        R"({"weight_map":{"c":"two.safetensors","a":"one.safetensors","b":"one.safetensors"}})");
  EXPECT_EQ(names(), (Texts{"c", "a", "b"}));
  EXPECT_EQ(names("model.safetensors.index.json"), (Texts{"c", "a", "b"}));
}

TEST_F(CheckpointFiles, RefusesAnIndexThatContradictsTheShards) {
  write_weights("one.safetensors", {"a"});
  write("i.json", R"({"weight_map":{"a":"one.safetensors","missing":"one.safetensors"}})");
  const std::string text = expect_error(Code::corrupt_file, [&] { names("i.json"); });
  EXPECT_NE(text.find("missing"), std::string::npos) << text;
  write("i.json", R"({"weights":{}})");
  expect_error(Code::wrong_kind, [&] { names("i.json"); });
  for (const char* const shard : {"\"../one.safetensors\"", "\"..\"", "\"\"", "1"}) {
    write("i.json", R"({"weight_map":{"a":)" + std::string(shard) + "}}");
    expect_error(Code::outside_folder, [&] { names("i.json"); });
  }
}

TEST_F(CheckpointFiles, RemovesWrapperPrefixes) {
  const std::pair<Texts, Texts> cases[] = {
      {{"_orig_mod.a.w", "b._orig_mod.w"}, {"a.w", "b.w"}},
      {{"module.a", "module.b"}, {"a", "b"}},
      {{"module.a", "b"}, {"module.a", "b"}},  // the model has a module of this name
      {{"module._orig_mod.a", "_orig_mod.module.b"}, {"a", "b"}},
      {{"my_orig_mod.a"}, {"my_orig_mod.a"}}};  // only part of a segment
  for (const auto& [stored, expected] : cases) {
    write_weights("w.safetensors", stored);
    EXPECT_EQ(names("w.safetensors"), expected);
  }
}

TEST_F(CheckpointFiles, RefusesOtherFiles) {
  write_weights("none.safetensors", {});
  write("old.pt", "\x80\x02}.");
  write("pointer.bin", "version https://git-lfs.github.com/spec/v1");
  write("text.bin", "hello, world");
  expect_error(Code::wrong_kind, [&] { names("none.safetensors"); });
  expect_error(Code::unsupported_feature, [&] { names("old.pt"); });
  EXPECT_NE(expect_error(Code::wrong_kind, [&] { names("pointer.bin"); }).find("LFS"), std::string::npos);
  expect_error(Code::wrong_kind, [&] { names("text.bin"); });
}

TEST(CheckpointParameters, HalfPrecisionHasFloat32Digests) {
  const auto parameter_of = [](DType dtype, const std::string& bytes) {
    std::vector<CheckpointTensor> tensors(1);
    tensors[0] = {.name = "w", .aliases = {"v"}, .data = {dtype, {2}, Bytes::owned(bytes)}};
    return checkpoint::parameters_of(std::move(tensors)).front();
  };
  const float numbers[] = {1.0f, -2.5f};
  const std::string wide(reinterpret_cast<const char*>(numbers), sizeof numbers);
  const Parameter full = parameter_of(DType::float32, wide);
  const Parameter half = parameter_of(DType::float16, std::string("\x00\x3c\x00\xc1", 4));
  const Parameter bfloat = parameter_of(DType::bfloat16, std::string("\x80\x3f\x20\xc0", 4));
  EXPECT_FALSE(full.digests.content.empty());
  EXPECT_EQ(half.digests.content, full.digests.content);
  EXPECT_EQ(bfloat.digests.content, full.digests.content);
  EXPECT_EQ(half.data.dtype, DType::float16);
  EXPECT_EQ(half.data.bytes.size(), 4u);
  EXPECT_FALSE(half.data.bytes.in_memory());  // the bytes stay in the file
  EXPECT_EQ(half.aliases, Texts{"v"});
}

}  // namespace
}  // namespace whence
