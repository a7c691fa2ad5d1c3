// KeptState: a forward may change the module's buffers, as counters and caches do. Recording calls it several times,
// and each call must find what the first one found; so must the user, afterwards.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace whence::native {

class KeptState {
 public:
  // Names of buffers that change while this lives are added to `changed`.
  KeptState(const torch::nn::Module& module, std::set<std::string>& changed);
  ~KeptState();  // puts them back
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
