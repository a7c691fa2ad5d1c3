// `with_library FOLDER`: records a model from a shared library through a function that calls it; writes the archive.
// A Python process loads the same code as a library.
#include <iostream>

#include <whence/record.h>

std::shared_ptr<torch::nn::Module> make_model();
torch::Tensor call_model(torch::nn::Module& model, torch::Tensor x);

extern "C" int record_library(const char* name) try {
  const std::string folder = name;
  const auto model = make_model();
  const auto report = whence::record_call(
      *model, {torch::ones({3, 4})}, [&](std::vector<torch::Tensor>& inputs) { return call_model(*model, inputs[0]); },
      folder + "/library.whence.json", {.archive = folder + "/library.pt"});
  std::cout << report.operations << " " << report.exact << std::endl;
  return 0;
} catch (const whence::Error& error) {
  std::cout << error.what() << std::endl;
  return 1;
}

int main(int, char** argv) { return record_library(argv[1]), 0; }
