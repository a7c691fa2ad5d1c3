// Speakers: the user's classes whose code was running when an operation or call was noted, read from the native stack.
//
// With debug information a stack also lists functions that were inlined, so the class of a speaker is certain. Without
// it a frame has only the name of its own function, and code of any module below may have been inlined there unseen. In
// a stripped program a frame has no name: such a speaker has no class, and nothing is concluded from it.
#pragma once

#include <map>

#include "recorder/native/module_mirror.h"
#include "recorder/native/native_stack.h"

namespace whence::native {

// A function of the model in a stack.
struct Speaker {
  std::string type;  // the class; "" when its name is not known
  std::uintptr_t function = 0;
  std::uintptr_t position = 0;  // place in the function: differs between calls on different lines
  bool certain = false;         // from debug information, so nothing was inlined unseen

  bool same_code(const Speaker& other) const { return type == other.type; }
  bool operator==(const Speaker& other) const { return same_code(other) && position == other.position; }
};
using Speakers = std::vector<Speaker>;  // innermost first

// Finds the speakers of stacks, and the modules on which their code may run.
class SpeakerFinder {
 public:
  SpeakerFinder(const ModuleMirror& mirror, Symbols& symbols);
  Speakers in(const NativeStack& stack);
  // The user's modules on which code of `type` may run: those of the class, and of classes that derive from it.
  const std::vector<const torch::nn::Module*>& running(const std::string& type) const;
  bool runs(const torch::nn::Module* module, const std::string& type) const;

 private:
  const std::string* class_of(const std::string& function) const;
  const Speakers& at(const NativeFrame& frame);

  Symbols& symbols_;
  std::unordered_map<std::uintptr_t, Speakers> known_;  // by site
  std::map<std::string, std::vector<const torch::nn::Module*>> running_;
};

}  // namespace whence::native
