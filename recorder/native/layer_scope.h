// What the interposed forwards of layers.cpp call. They are linked into the user's program, the rest is in the library.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace whence::native {

// A call of a library layer, for as long as the object lives.
class LayerScope {
 public:
  explicit LayerScope(const torch::nn::Module* module);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  bool open_;
};

// For layers whose forward is a template, and so a part of the user's program, but which first call something of the
// library: the next operation is theirs if it is of this kind.
void expect_operation(const torch::nn::Module* module, const char* kind);

// LibTorch's own function of that mangled name. Throws Error(needs_libtorch) when it has none.
void* next_in_libtorch(const std::string& mangled);

// The code of the interposed forwards, which is not the model's. Called before main.
void register_layers(const void* begin, const void* end);

// Throws Error(unsupported_feature) unless LibTorch's layers are found in that code when symbols are looked up.
void check_layers_interposed();

}  // namespace whence::native
