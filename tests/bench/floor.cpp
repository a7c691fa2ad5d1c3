// The minimum work of an export of a TorchScript archive: loads LibTorch and the archive, and runs the model once,
// because whence gets shapes from that run. Writing the weights is not included: side_by_side.py adds `cp`.
//
//     floor model.pt inputs.pt       inputs: a dictionary of tensors, written by torch.save

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
  torch::jit::setGraphExecutorOptimize(false);  // optimising does not pay off for a single run
  at::set_num_threads(1);                       // waiting threads burn CPU time
  torch::jit::Module model = torch::jit::load(arguments[1]);
  std::ifstream file(arguments[2], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::unordered_map<std::string, c10::IValue> inputs;
  for (const auto& entry : torch::jit::pickle_load(bytes).toGenericDict()) {
    inputs.emplace(entry.key().toStringRef(), entry.value());
  }
  std::cout << model.get_method("forward")({}, inputs).tagKind() << "\n";
}
