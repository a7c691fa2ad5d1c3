// torchvision's operators on boxes and regions, so that an archive that calls them opens where torchvision is not
// loaded.
#pragma once

#include <memory>

namespace whence::recorder::detection {

// LibTorch knows torchvision's operators while this lives; nothing is registered when the process has torchvision's
// own. Other code of the process may load torchvision afterwards.
class DetectionOperators {
 public:
  DetectionOperators();
  ~DetectionOperators();
  DetectionOperators(const DetectionOperators&) = delete;
  DetectionOperators& operator=(const DetectionOperators&) = delete;

 private:
  struct Registered;
  std::unique_ptr<Registered> registered_;
};

}  // namespace whence::recorder::detection
