// The least that an export of a TorchScript archive can do: LibTorch and the archive are loaded, and the model runs
// once. whence learns shapes from that run. The weights' way to the disk is not in it: side_by_side.py adds `cp`.
//
//     floor model.pt inputs.pt       inputs: a dictionary of tensors that torch.save wrote

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

int main(int count, char** arguments) {
  if (count != 3) return 2;
  torch::NoGradGuard guard;
  torch::jit::setGraphExecutorOptimize(false);  // one run does not pay for optimising
  at::set_num_threads(1);                       // threads that wait burn CPU time
  torch::jit::Module model = torch::jit::load(arguments[1]);
  std::ifstream file(arguments[2], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::unordered_map<std::string, c10::IValue> inputs;
  for (const auto& entry : torch::jit::pickle_load(bytes).toGenericDict()) {
    inputs.emplace(entry.key().toStringRef(), entry.value());
  }
  std::cout << model.get_method("forward")({}, inputs).tagKind() << "\n";
}
