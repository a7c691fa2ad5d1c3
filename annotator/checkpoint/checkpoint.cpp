#include "annotator/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "annotator/checkpoint/safetensors.h"
#include "annotator/checkpoint/torch_archive.h"
#include "schema/files/files.h"
#include "schema/printable.h"
#include "schema/small_floats.h"
#include "schema/tensor_digests.h"

namespace whence::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view remedy =
    "pass a .safetensors file, a file that torch.save wrote, an index of shards, or a folder with one of them";

// Converts 16-bit floats to float32 without loss; returns other tensors unchanged.
TensorData in_float32(const TensorData& tensor) {
  const auto bytes = tensor.bytes.in_memory();
  if (!bytes || (tensor.dtype != DType::float16 && tensor.dtype != DType::bfloat16)) return tensor;
  const auto widen = tensor.dtype == DType::float16 ? from_float16_bits : from_bfloat16_bits;
  std::string wide(bytes->size() * 2, '\0');
  for (std::size_t i = 0; i < bytes->size() / 2; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes->data() + i * sizeof bits, sizeof bits);
    const float number = widen(bits);
    std::memcpy(wide.data() + i * sizeof number, &number, sizeof number);
  }
  return {DType::float32, tensor.shape, Bytes::owned(std::move(wide))};
}

// File names that model libraries use, in order of preference.
constexpr std::array names = {"model.safetensors",
                              "model.safetensors.index.json",
                              "pytorch_model.bin",
                              "pytorch_model.bin.index.json",
                              "diffusion_pytorch_model.safetensors",
                              "diffusion_pytorch_model.safetensors.index.json",
                              "diffusion_pytorch_model.bin",
                              "open_clip_model.safetensors",
                              "adapter_model.safetensors"};

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the weight file in a folder.
std::string file_in(const std::string& folder) {
  for (const char* name : names) {
    if (path_exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  std::set<std::string> others;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string ending = entry->path().extension().string();
    if (ending == ".safetensors" || ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".ckpt")
      others.insert(entry->path().string());
  }
  if (others.size() == 1) return *others.begin();
  throw Error(Code::missing_file,
              others.empty() ? "the folder holds no weights"
                             : "the folder holds " + std::to_string(others.size()) + " files that may be weights",
              others.empty() ? std::string(remedy) : "pass the path of one file", {.file = folder, .stage = "read"});
}

std::optional<Json> json_of(const std::string& path) {
  const auto file = MappedFile::open(path);
  Json json = Json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

std::vector<CheckpointTensor> read_one(const std::string& path, Diagnostics& notes) {
  const auto file = MappedFile::open(path);
  const std::string_view bytes = file->text();
  if (is_safetensors(bytes)) return read_safetensors(file, notes);
  if (bytes.starts_with("PK\x03\x04")) return read_torch_archive(path, notes);
  const Place place{.file = path, .stage = "read"};
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) {
    throw Error(Code::unsupported_feature, "the file is a pickle from before PyTorch 1.6",
                "load and save it with a newer PyTorch", place);
  }
  if (bytes.starts_with("version https://git-lfs")) {
    throw Error(Code::wrong_kind, "the file is a Git LFS pointer", "run `git lfs pull` to get the file itself", place);
  }
  throw Error(Code::wrong_kind, "the file holds no weights that whence can read", std::string(remedy), place);
}

// Reads the shards of an index like "model.safetensors.index.json", which maps tensors to shards.
std::vector<CheckpointTensor> read_shards(const std::string& index, Diagnostics& notes) {
  const Place place{.file = index, .stage = "read"};
  const auto json = json_of(index);
  const bool is_index = json && json->contains("weight_map") && json->at("weight_map").is_object();
  if (!is_index) throw Error(Code::wrong_kind, "the file is not an index of shards", std::string(remedy), place);
  std::vector<std::string> shards;
  std::set<std::string> missing;
  for (const auto& [name, shard] : json->at("weight_map").items()) {
    const auto text = shard.is_string() ? shard.get<std::string>() : std::string();
    if (text.empty() || text.find('/') != std::string::npos || text == "..") {
      throw Error(Code::outside_folder, "the shard '" + printable(text) + "' is not in the folder of the index",
                  "put the shards in the folder of their index", place);
    }
    if (std::ranges::find(shards, text) == shards.end()) shards.push_back(text);
    missing.insert(name);
  }
  std::vector<CheckpointTensor> tensors;
  for (const std::string& shard : shards) {
    for (CheckpointTensor& tensor : read_one((fs::path(index).parent_path() / shard).string(), notes)) {
      missing.erase(tensor.name);
      for (const std::string& alias : tensor.aliases) missing.erase(alias);
      tensors.push_back(std::move(tensor));
    }
  }
  if (!missing.empty()) {
    throw Error(Code::corrupt_file, "no shard holds '" + printable(*missing.begin()) + "', which the index lists",
                "get the shards again", place);
  }
  return tensors;
}

// Returns the model's own name: torch.compile adds "_orig_mod." before the names of compiled modules, DataParallel adds
// "module." before all names.
std::string without_wrappers(std::string name, bool is_parallel) {
  constexpr std::string_view compiled = "_orig_mod.", parallel = "module.";
  for (std::size_t at = name.find(compiled); at != std::string::npos; at = name.find(compiled, at)) {
    if (at == 0 || name[at - 1] == '.') {
      name.erase(at, compiled.size());
    } else {
      ++at;
    }
  }
  if (is_parallel && name.starts_with(parallel)) name.erase(0, parallel.size());
  return name;
}

void remove_wrapper_prefixes(std::vector<CheckpointTensor>& tensors) {
  const bool is_parallel = std::ranges::all_of(tensors, [](const CheckpointTensor& tensor) {
    return without_wrappers(tensor.name, false).starts_with("module.");
  });
  for (CheckpointTensor& tensor : tensors) {
    tensor.name = without_wrappers(std::move(tensor.name), is_parallel);
    for (std::string& alias : tensor.aliases) alias = without_wrappers(std::move(alias), is_parallel);
  }
}

}  // namespace

std::vector<CheckpointTensor> read_checkpoint(const std::string& path, Diagnostics& notes) {
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? file_in(path) : path;
  std::vector<CheckpointTensor> tensors = file.ends_with(".json") ? read_shards(file, notes) : read_one(file, notes);
  if (tensors.empty()) {
    throw Error(Code::wrong_kind, "the file holds no tensors", std::string(remedy), {.file = file, .stage = "read"});
  }
  remove_wrapper_prefixes(tensors);
  return tensors;
}

std::vector<Parameter> parameters_of(std::vector<CheckpointTensor> tensors) {
  std::vector<Parameter> parameters;
  for (CheckpointTensor& each : tensors) {
    Program one;
    Parameter& parameter = one.parameters.items().emplace_back();
    parameter.name = std::move(each.name);
    parameter.aliases = std::move(each.aliases);
    parameter.data = in_float32(each.data);
    compute_digests(one);
    parameters.push_back(std::move(parameter));
    TensorData& data = parameters.back().data;
    data = {each.data.dtype, std::move(data.shape), Bytes::left_out(each.data.bytes.size())};
  }
  return parameters;
}

}  // namespace whence::checkpoint
