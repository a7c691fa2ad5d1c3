// `with_library FOLDER`: records a model that a shared library made, by a function that calls it; keeps the archive.
// The same code is a library that a Python process loads.
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
