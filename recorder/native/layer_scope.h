// Functions that the interposed forwards of layers.cpp call. The forwards are linked into the user's program, these
// functions are in the library.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace whence::native {

// Announces a call of a LibTorch layer to the session. The call ends with the object's lifetime.
class LayerScope {
 public:
  explicit LayerScope(const torch::nn::Module* module);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  bool open_;
};

// Announces that the next operation belongs to `module` if it is of this kind. Needed for layers whose forward is a
// template, and so compiled into the user's program, but begins with a call of a library function.
void expect_operation(const torch::nn::Module* module, const char* kind);

// Returns LibTorch's own function with this mangled name. Throws Error(needs_libtorch) if there is none.
void* next_in_libtorch(const std::string& mangled);

// Registers the code of the interposed forwards, so that it does not count as the model's code. Called before main.
void register_layers(const void* begin, const void* end);

// Throws Error(unsupported_feature) unless the symbols of LibTorch's layers resolve to the registered code.
void check_layers_interposed();

}  // namespace whence::native
