// Exports three torch::nn modules to ONNX and writes LibTorch's results for inputs of the example's size and of another
// size: `export_models FOLDER`. check.py compares them. The archives contain the same programs, for
// `whence record --values`.
#include <cstdio>
#include <fstream>
#include <string>

#include <whence/record.h>

#include "models.h"

namespace {

void save(const torch::Tensor& tensor, const std::string& path) {
  const std::vector<char> bytes = torch::pickle_save(tensor);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <class Module>
void save_expected(Module& module, const torch::Tensor& input, const std::string& stem) {
  const torch::NoGradGuard no_grad;
  module.eval();
  save(input, stem + ".input.pt");
  save(module.forward(input), stem + ".expected.pt");
}

void print(const char* name, const whence::Report& report) {
  std::printf("%-12s %3ld operations: %ld exact, %ld inferred, %zu sizes made dynamic\n", name,
              static_cast<long>(report.operations), static_cast<long>(report.exact), static_cast<long>(report.inferred),
              report.dynamic.size());
  for (const auto& note : report.notes) std::printf("  %s\n", whence::to_text(note).c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: export_models FOLDER\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  torch::manual_seed(0);

  ResNet resnet(10);
  const auto image = torch::randn({2, 3, 32, 32});
  print("resnet", whence::export_onnx(*resnet, {image}, folder + "resnet.onnx",
                                      {.dynamic_axes = {{"image", {{0, "batch"}}}},
                                       .input_names = {"image"},
                                       .output_names = {"logits"},
                                       .sidecar = folder + "resnet.whence.json",
                                       .archive = folder + "resnet.pt"}));
  save_expected(*resnet, image, folder + "resnet.0");
  save_expected(*resnet, torch::randn({5, 3, 32, 32}), folder + "resnet.1");

  TextEncoder encoder(1000, 32);
  const auto text = torch::randint(0, 1000, {2, 12});
  print("text_encoder", whence::export_onnx(*encoder, {text}, folder + "text_encoder.onnx",
                                            {.dynamic_axes = {{"ids", {{0, "batch"}, {1, "length"}}}},
                                             .input_names = {"ids"},
                                             .sidecar = folder + "text_encoder.whence.json",
                                             .archive = folder + "text_encoder.pt"}));
  save_expected(*encoder, text, folder + "text_encoder.0");
  save_expected(*encoder, torch::randint(0, 1000, {3, 19}), folder + "text_encoder.1");

  Tagger tagger(1000, 17);
  print("tagger", whence::export_onnx(*tagger, {text}, folder + "tagger.onnx",
                                      {.dynamic_axes = {{"ids", {{0, "batch"}, {1, "length"}}}},
                                       .input_names = {"ids"},
                                       .sidecar = folder + "tagger.whence.json",
                                       .archive = folder + "tagger.pt"}));
  save_expected(*tagger, text, folder + "tagger.0");
  save_expected(*tagger, torch::randint(0, 1000, {4, 7}), folder + "tagger.1");
  return 0;
} catch (const whence::Error& error) {
  for (const auto& diagnostic : error.diagnostics()) {
    std::fprintf(stderr, "%s\n", whence::to_text(diagnostic).c_str());
  }
  return 1;
}
