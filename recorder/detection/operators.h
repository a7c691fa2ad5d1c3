// Registers torchvision's operators on boxes and regions, so that archives that call them load without torchvision.
#pragma once

#include <memory>

namespace whence::recorder::detection {

// Keeps the operators registered while it exists. Registers nothing if the process has torchvision's own. After its
// lifetime, other code of the process may load torchvision.
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
