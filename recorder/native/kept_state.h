// KeptState: saves the module's buffers and restores them in its destructor. A forward may change buffers, such as
// counters and caches; recording calls it several times, and each call, and the user afterwards, must find them
// unchanged.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace whence::native {

class KeptState {
 public:
  // The destructor adds the names of buffers that changed to `changed`.
  KeptState(const torch::nn::Module& module, std::set<std::string>& changed);
  ~KeptState();  // restores the buffers
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  struct Buffer {
    std::string name;
    at::Tensor tensor, before;
  };
  std::vector<Buffer> buffers_;
  std::set<std::string>& changed_;
};

}  // namespace whence::native
