#include "recorder/native/speakers.h"

#include <algorithm>

namespace whence::native {

using Module = torch::nn::Module;

SpeakerFinder::SpeakerFinder(const ModuleMirror& mirror, Symbols& symbols) : symbols_(symbols) {
  for (const Module* module : mirror.modules()) {
    if (mirror.at(module).kind != ModuleKind::user) continue;
    for (const std::string& type : mirror.at(module).classes) running_[type].push_back(module);
  }
}

// The longest name that fits: a class may stand inside another one.
const std::string* SpeakerFinder::class_of(const std::string& function) const {
  const std::string* found = nullptr;
  for (const auto& [type, modules] : running_) {
    if (function.size() > type.size() + 2 && function.starts_with(type) &&
        function.compare(type.size(), 2, "::") == 0 && (found == nullptr || found->size() < type.size())) {
      found = &type;
    }
  }
  return found;
}

Speakers SpeakerFinder::in(const NativeStack& stack) {
  Speakers speakers;
  for (const NativeFrame& frame : stack) {
    const Speakers& there = at(frame);
    speakers.insert(speakers.end(), there.begin(), there.end());
  }
  return speakers;
}

const Speakers& SpeakerFinder::at(const NativeFrame& frame) {
  const auto [known, fresh] = known_.emplace(frame.site, Speakers());
  Speakers& speakers = known->second;
  if (!fresh) return speakers;
  const std::vector<Frame>& functions = symbols_.at(frame.site);
  if (functions.empty()) speakers.push_back({"", frame.function, frame.site, false});
  for (const Frame& function : functions) {
    const std::string* type = class_of(function.function);
    if (type == nullptr) continue;
    // Functions inlined into one frame share its address; the line gives the position in the outer ones.
    const std::uintptr_t position = speakers.empty() ? frame.site : static_cast<std::uintptr_t>(function.line);
    speakers.push_back({*type, frame.function, position, !function.file.empty()});
  }
  return speakers;
}

const std::vector<const Module*>& SpeakerFinder::running(const std::string& type) const {
  static const std::vector<const Module*> none;
  const auto found = running_.find(type);
  return found == running_.end() ? none : found->second;
}

bool SpeakerFinder::runs(const Module* module, const std::string& type) const {
  const auto& modules = running(type);
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

}  // namespace whence::native
