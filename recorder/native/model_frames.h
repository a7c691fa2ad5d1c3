// Finds the frames of a native stack that run code of the user's module classes.
//
// With debug information a stack also lists inlined functions, so the class of a frame is certain. Without it, a frame
// has only the name of its own function, and code of any module below may have been inlined there. In a stripped
// program a frame has no name: it gets no class, and nothing is inferred from it.
#pragma once

#include <map>

#include "recorder/native/module_mirror.h"
#include "recorder/native/native_stack.h"

namespace whence::native {

// A frame of a function of a user's class.
struct ModelFrame {
  std::string type;  // the class; "" if the function has no name
  std::uintptr_t function = 0;
  std::uintptr_t position = 0;  // position in the function: differs between calls on different lines
  bool certain = false;         // true with debug information, which lists all inlined functions

  bool same_code(const ModelFrame& other) const { return type == other.type; }
  bool operator==(const ModelFrame& other) const { return same_code(other) && position == other.position; }
};
using ModelFrames = std::vector<ModelFrame>;  // innermost first

// Finds the model frames of stacks, and the modules on which their code may run.
class ModelFrameFinder {
 public:
  ModelFrameFinder(const ModuleMirror& mirror, Symbols& symbols);
  ModelFrames frames_of(const NativeStack& stack);
  // Returns the user's modules on which code of `type` may run: modules of this class and of derived classes.
  const std::vector<const torch::nn::Module*>& modules_running(const std::string& type) const;
  bool may_run(const torch::nn::Module* module, const std::string& type) const;

 private:
  const std::string* class_of(const std::string& function) const;
  const ModelFrames& at(const NativeFrame& frame);

  Symbols& symbols_;
  std::unordered_map<std::uintptr_t, ModelFrames> cache_;  // by site
  std::map<std::string, std::vector<const torch::nn::Module*>> modules_by_class_;
};

}  // namespace whence::native
