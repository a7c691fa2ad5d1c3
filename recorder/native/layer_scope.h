// Functions that the forwards of layers.cpp call. Those forwards take the place of LibTorch's and are linked into the
// user's program; these functions are in the library.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace whence::native {

// Announces a call of a library layer, which lasts as long as the object.
class LayerScope {
 public:
  explicit LayerScope(const torch::nn::Module* module);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  bool open_;
};

// Announces that the next operation belongs to `module` if it is of this kind. For layers whose forward is a template,
// and so a part of the user's program, but begins with a call of a library function.
void expect_operation(const torch::nn::Module* module, const char* kind);

// Returns LibTorch's own function of that mangled name. Throws Error(needs_libtorch) when it has none.
void* next_in_libtorch(const std::string& mangled);

// Registers the code of the interposed forwards, so that it does not count as the model's. Called before main.
void register_layers(const void* begin, const void* end);

// Throws Error(unsupported_feature) unless LibTorch's layers are found in that code when symbols are looked up.
void check_layers_interposed();

}  // namespace whence::native
