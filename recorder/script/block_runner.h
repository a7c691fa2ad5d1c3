// BlockRunner: goes through the nodes of a block, and lets go of each value as soon as nothing reads it, as an ordinary
// run does.
#pragma once

#include <functional>

#include "recorder/script/call.h"

namespace whence::recorder {

class BlockRunner {
 public:
  explicit BlockRunner(std::function<void(const Step&)> carry_out) : carry_out_(std::move(carry_out)) {}

  void run(const torch::jit::Block& block, Call& call);
  // Lets go of the inputs and results that only the block itself knows, once it is left.
  static void forget(const torch::jit::Block& block, Call& call);

 private:
  // Values that no later node of a block needs, by node; computed once a block.
  using LastUses = std::unordered_map<const torch::jit::Node*, std::vector<const torch::jit::Value*>>;
  const LastUses& last_uses(const torch::jit::Block& block);

  std::function<void(const Step&)> carry_out_;
  std::unordered_map<const torch::jit::Block*, LastUses> last_uses_;
};

}  // namespace whence::recorder
