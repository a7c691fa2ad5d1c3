// Speakers: which of the user's classes had code running when something was noted, read off the native stack.
//
// With debug information the functions that were inlined are listed too, so a class that speaks is certain. Without it
// a frame has the name of its own function alone, and code of any module below may have been inlined there unseen; in a
// stripped program not even that: such a speaker has no class, and nothing is concluded from it.
#pragma once

#include <map>

#include "recorder/native/module_mirror.h"
#include "recorder/native/native_stack.h"

namespace whence::native {

// A function of the model's in a stack.
struct Speaker {
  std::string type;  // the class; "" when its name is not known
  std::uintptr_t function = 0;
  std::uintptr_t position = 0;  // where in the function: differs between two calls that stand on different lines
  bool certain = false;         // from debug information, so nothing was inlined unseen

  bool same_code(const Speaker& other) const { return type == other.type; }
  bool operator==(const Speaker& other) const { return same_code(other) && position == other.position; }
};
using Speakers = std::vector<Speaker>;  // innermost first

// The user's classes, and what stacks say of them.
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
