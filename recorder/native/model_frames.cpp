// Matches function names on the native stack with the classes of the user's modules.
#include "recorder/native/model_frames.h"

#include <algorithm>

namespace whence::native {

using Module = torch::nn::Module;

ModelFrameFinder::ModelFrameFinder(const ModuleMirror& mirror, Symbols& symbols) : symbols_(symbols) {
  for (const Module* module : mirror.modules()) {
    if (mirror.at(module).kind != ModuleKind::user) continue;
    for (const std::string& type : mirror.at(module).classes) modules_by_class_[type].push_back(module);
  }
}

// Returns the longest class name that is a prefix of the function's name, or null. Classes may be nested.
const std::string* ModelFrameFinder::class_of(const std::string& function) const {
  const std::string* found = nullptr;
  for (const auto& [type, modules] : modules_by_class_) {
    if (function.size() > type.size() + 2 && function.starts_with(type) &&
        function.compare(type.size(), 2, "::") == 0 && (found == nullptr || found->size() < type.size())) {
      found = &type;
    }
  }
  return found;
}

ModelFrames ModelFrameFinder::frames_of(const NativeStack& stack) {
  ModelFrames frames;
  for (const NativeFrame& frame : stack) {
    const ModelFrames& there = at(frame);
    frames.insert(frames.end(), there.begin(), there.end());
  }
  return frames;
}

const ModelFrames& ModelFrameFinder::at(const NativeFrame& frame) {
  const auto [entry, fresh] = cache_.emplace(frame.site, ModelFrames());
  ModelFrames& frames = entry->second;
  if (!fresh) return frames;
  const std::vector<Frame>& functions = symbols_.at(frame.site);
  if (functions.empty()) frames.push_back({"", frame.function, frame.site, false});
  for (const Frame& function : functions) {
    const std::string* type = class_of(function.function);
    if (type == nullptr) continue;
    // Functions inlined into one frame share its address, so the position in the outer functions is the line.
    const std::uintptr_t position = frames.empty() ? frame.site : static_cast<std::uintptr_t>(function.line);
    frames.push_back({*type, frame.function, position, !function.file.empty()});
  }
  return frames;
}

const std::vector<const Module*>& ModelFrameFinder::modules_running(const std::string& type) const {
  static const std::vector<const Module*> none;
  const auto found = modules_by_class_.find(type);
  return found == modules_by_class_.end() ? none : found->second;
}

bool ModelFrameFinder::may_run(const Module* module, const std::string& type) const {
  const auto& modules = modules_running(type);
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

}  // namespace whence::native
