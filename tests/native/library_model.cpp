// A library, not linked to whence, that creates a model whose class it defines.
#include <torch/torch.h>

namespace {

struct ModelImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return out(torch::relu(in(x))); }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 2));
};

}  // namespace

std::shared_ptr<torch::nn::Module> make_model() { return std::make_shared<ModelImpl>(); }
torch::Tensor call_model(torch::nn::Module& model, torch::Tensor x) {
  return model.as<ModelImpl>()->forward(std::move(x));
}
