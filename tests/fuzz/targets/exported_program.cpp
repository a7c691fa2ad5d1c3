// Exports a torch.export archive: {"program": models/model.json, "weights": model_weights_config.json, "constants":
// ..., "dynamic": ["x:0=batch"]}, or only the program's text, which is put into a valid archive.
#include <nlohmann/json.hpp>

#include "schema/json_text.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/fuzz/target.h"
#include "whence/export.h"

namespace whence::fuzz {
namespace {

std::string archive_of(const std::string& program, const std::string& weights, const std::string& constants) {
  static const std::string bytes(96, '\x3f');
  ZipMembers members = {{"m/archive_format", "pt2"},
                        {"m/archive_version", "0"},
                        {"m/byteorder", "little"},
                        {"m/models/model.json", program},
                        {"m/data/weights/model_weights_config.json", weights},
                        {"m/data/constants/model_constants_config.json", constants}};
  for (int i = 0; i < 8; ++i) members.emplace_back("m/data/weights/weight_" + std::to_string(i), bytes);
  members.emplace_back("m/data/constants/tensor_0", bytes);
  return stored_zip(members);
}

std::vector<std::string> texts_of(const nlohmann::ordered_json& list) {
  std::vector<std::string> texts;
  for (const auto& each : list) {
    if (each.is_string() && texts.size() < 4) texts.push_back(each.get<std::string>());
  }
  return texts;
}

void run(std::string_view input) {
  const auto document = nlohmann::ordered_json::parse(input, nullptr, /*allow_exceptions=*/false);
  const auto part = [&](const char* key) {
    return document.is_object() && document.contains(key) ? json_text(document[key]) : std::string("{\"config\": {}}");
  };
  const bool in_parts = document.is_object() && document.contains("program");
  const std::string path = file_of(
      "program.pt2", archive_of(in_parts ? part("program") : std::string(input), part("weights"), part("constants")));
  const std::string output = scratch("output.onnx");
  const std::vector<std::string> dynamic =
      in_parts && document.contains("dynamic") ? texts_of(document["dynamic"]) : std::vector<std::string>{};
  attempt_each(
      input,
      {
          [&] { export_archive(path, output, {.annotate = true, .sidecar = scratch("output.json")}); },
          [&] {
            export_archive(
                path, output,
                {.opset = 13, .annotate = false, .optimize = false, .unsupported_as_domain = true, .dynamic = dynamic});
          },
      });
}

const Target target("exported_program", run, 32768, mutate_json);

}  // namespace
}  // namespace whence::fuzz
