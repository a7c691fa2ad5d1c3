// `with_library FOLDER`: records a model that a shared library made, by a function that calls it; keeps the archive.
#include <iostream>

#include <whence/record.h>

std::shared_ptr<torch::nn::Module> make_model();
torch::Tensor call_model(torch::nn::Module& model, torch::Tensor x);

int main(int, char** argv) try {
  const std::string folder = argv[1];
  const auto model = make_model();
  const auto report = whence::record_call(
      *model, {torch::ones({3, 4})}, [&](std::vector<torch::Tensor>& inputs) { return call_model(*model, inputs[0]); },
      folder + "/library.whence.json", {.archive = folder + "/library.pt"});
  std::cout << report.operations << " " << report.exact << "\n";
} catch (const whence::Error& error) {
  std::cout << error.what() << "\n";
}
