// BlockRunner: evaluates the nodes of a block, and releases each value as soon as no later node reads it, as an
// ordinary run does.
#pragma once

#include <functional>

#include "recorder/script/call.h"

namespace whence::recorder::script {

class BlockRunner {
 public:
  explicit BlockRunner(std::function<void(const Step&)> carry_out) : carry_out_(std::move(carry_out)) {}

  void run(const torch::jit::Block& block, Call& call);
  // Releases the inputs and results of the block at its end.
  static void release(const torch::jit::Block& block, Call& call);

 private:
  // By node, the values that no later node of its block reads; computed once for each block.
  using LastUses = std::unordered_map<const torch::jit::Node*, std::vector<const torch::jit::Value*>>;
  const LastUses& last_uses(const torch::jit::Block& block);

  std::function<void(const Step&)> carry_out_;
  std::unordered_map<const torch::jit::Block*, LastUses> last_uses_;
};

}  // namespace whence::recorder::script
