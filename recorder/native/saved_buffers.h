// SavedBuffers: saves the module's buffers, and restores them in its destructor. A forward may change buffers, such as
// counters and caches. Recording calls forward several times; each call must start with the original buffers, and the
// user must get them back.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace whence::native {

class SavedBuffers {
 public:
  // The destructor adds the names of buffers that changed to `changed`.
  SavedBuffers(const torch::nn::Module& module, std::set<std::string>& changed);
  ~SavedBuffers();
  SavedBuffers(const SavedBuffers&) = delete;
  SavedBuffers& operator=(const SavedBuffers&) = delete;

 private:
  struct Buffer {
    std::string name;
    at::Tensor tensor, before;
  };
  std::vector<Buffer> buffers_;
  std::set<std::string>& changed_;
};

}  // namespace whence::native
