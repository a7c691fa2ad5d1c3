#include "annotator/derivation/low_rank.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include <re2/re2.h>

#include "annotator/program/tensor_values.h"
#include "schema/files/files.h"
#include "schema/printable.h"

namespace whence::derivation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view remedy = "merge the adapter with PEFT (merge_and_unload) and pass the merged checkpoint";

struct Config {
  double alpha = 8;
  bool uses_root = false, transposed = false;
  std::vector<std::pair<std::string, double>> alphas;  // by regular expression of the end of a module's name

  double scale(const std::string& module, std::int64_t rank) const {
    const auto fits = [&](const auto& each) { return RE2::FullMatch(module, "(?:.*\\.)?(?:" + each.first + ")"); };
    const auto found = std::ranges::find_if(alphas, fits);
    const double chosen = found == alphas.end() ? alpha : found->second;
    return chosen / (uses_root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }
};

// Returns the setting by which an adapter is more than a product that is added to a weight; "" if there is none.
std::string special_setting(const Json& json) {
  if (json.value("peft_type", Json("LORA")) != "LORA") return "peft_type";
  // These change the base model when PEFT loads the adapter, depend on the input, or add more than a product.
  static constexpr std::array<const char*, 11> settings = {
      "use_dora",     "use_qalora",   "lora_bias",      "alora_invocation_tokens", "layer_replication",
      "loftq_config", "corda_config", "lora_ga_config", "trainable_token_indices", "arrow_config",
      "use_bdlora"};
  for (const char* setting : settings) {
    const Json value = json.value(setting, Json());
    if (!value.is_null() && value != false && !(value.is_structured() && value.empty())) return setting;
  }
  // These initial values change neither the base model nor its use.
  static const std::vector<Json> plain = {nullptr, true, false, "gaussian", "eva", "orthogonal"};
  const bool is_plain = std::ranges::find(plain, json.value("init_lora_weights", Json())) != plain.end();
  return is_plain ? "" : "init_lora_weights";
}

Config read_config(const std::string& path) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  const std::string file = (folder / "adapter_config.json").string();
  const Place place{.file = file, .stage = "read"};
  const Json json = Json::parse(MappedFile::open(file)->text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw Error(Code::corrupt_file, "the adapter's configuration is not a JSON object", "save the adapter again",
                place);
  const std::string special = special_setting(json);
  if (!special.empty()) {
    throw Error(Code::unsupported_feature, "the adapter is not a plain LoRA: its configuration sets '" + special + "'",
                std::string(remedy), place);
  }
  Config config;
  const Json alpha = json.value("lora_alpha", Json(config.alpha));
  if (!alpha.is_number()) {
    throw Error(Code::corrupt_file, "the adapter's lora_alpha is not a number", "save the adapter again", place);
  }
  config.alpha = alpha.get<double>();
  config.uses_root = json.value("use_rslora", Json(false)) == true;
  config.transposed = json.value("fan_in_fan_out", Json(false)) == true;
  if (json.contains("alpha_pattern") && json["alpha_pattern"].is_object()) {
    for (const auto& [pattern, alpha] : json["alpha_pattern"].items()) {
      if (!alpha.is_number() || !RE2(pattern, RE2::Quiet).ok()) {
        throw Error(Code::unsupported_feature, "the adapter's alpha_pattern has an entry that cannot be read",
                    std::string(remedy), place);
      }
      config.alphas.emplace_back(pattern, alpha.get<double>());
    }
  }
  return config;
}

std::string without_prefix(std::string name) {
  for (const std::string_view prefix : {"base_model.model.", "base_model."}) {
    if (!name.starts_with(prefix)) continue;
    name = name.substr(prefix.size());
    break;
  }
  // PEFT wraps an adapted layer, and saves its bias or weight under the wrapper's name.
  static constexpr std::string_view wrapped = ".base_layer.";
  if (const std::size_t at = name.rfind(wrapped); at != std::string::npos) name.replace(at, wrapped.size(), ".");
  return name;
}

std::vector<double> elements_of(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  std::vector<double> numbers(elements ? elements->size() : 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = elements->number(i);
  return numbers;
}

}  // namespace

TensorData LowRank::applied_to(const TensorData& weight) const {
  const std::int64_t rank = a.shape[0], inputs = a.element_count() / rank, outputs = b.shape[0];
  const std::vector<double> first = elements_of(a), second = elements_of(b), old = elements_of(weight);
  std::vector<float> changed(old.size());
  std::vector<double> row(static_cast<std::size_t>(inputs));
  for (std::int64_t o = 0; o < outputs; ++o) {
    std::ranges::fill(row, 0);
    for (std::int64_t r = 0; r < rank; ++r) {
      const double factor = second[static_cast<std::size_t>(o * rank + r)];
      const double* const from = first.data() + r * inputs;
      for (std::int64_t i = 0; i < inputs; ++i) row[static_cast<std::size_t>(i)] += factor * from[i];
    }
    for (std::int64_t i = 0; i < inputs; ++i) {
      const auto at = static_cast<std::size_t>(transposed ? i * outputs + o : o * inputs + i);
      changed[at] = static_cast<float>(old[at] + scale * row[static_cast<std::size_t>(i)]);
    }
  }
  TensorData result{DType::float32, weight.shape, Bytes::copy_of(changed.data(), changed.size() * sizeof(float))};
  return program::cast_tensor(result, weight.dtype).value();
}

Adapter read_adapter(const std::string& path, Diagnostics& notes) {
  const Config config = read_config(path);
  Adapter adapter;
  for (checkpoint::CheckpointTensor& tensor : checkpoint::read_checkpoint(path, notes)) {
    std::string name = without_prefix(tensor.name);
    static constexpr std::array<std::string_view, 2> factors = {".lora_A", ".lora_B"};
    bool is_factor = false;
    for (const std::string_view factor : factors) {
      const std::size_t at = name.find(factor);
      if (at == std::string::npos) continue;
      LowRank& product = adapter.products[name.substr(0, at) + ".weight"];
      const bool is_first = factor == factors[0];
      (is_first ? product.a : product.b) = tensor.data;
      (is_first ? product.name_a : product.name_b) = tensor.name;
      is_factor = true;
    }
    if (is_factor) continue;
    if (name.find(".lora_") != std::string::npos) {
      throw Error(Code::unsupported_feature,
                  "the adapter holds '" + printable(name) + "', which is not a plain LoRA of a matrix or convolution",
                  std::string(remedy), {.file = path, .stage = "read"});
    }
    adapter.complete[name] = tensor.data;
  }
  for (auto& [name, product] : adapter.products) {
    for (const TensorData* factor : {&product.a, &product.b}) {
      if (program::Elements::of(*factor)) continue;
      throw Error(Code::unsupported_feature,
                  "the adapter's matrices of '" + printable(name) + "' are " + std::string(name_of(factor->dtype)),
                  "save the adapter in float32", {.file = path, .stage = "read"});
    }
    if (product.a.shape.size() < 2 || product.b.shape.size() < 2 || product.a.shape[0] != product.b.shape[1]) {
      throw Error(Code::corrupt_file, "the adapter's matrices of '" + printable(name) + "' do not fit each other",
                  "save the adapter again", {.file = path, .stage = "read"});
    }
    product.scale = config.scale(name.substr(0, name.rfind('.')), product.a.shape[0]);
    product.transposed = config.transposed;
  }
  return adapter;
}

}  // namespace whence::derivation
