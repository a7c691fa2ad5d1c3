// Finds whether a value of a graph is read again, including in later iterations of a loop.
#pragma once

#include "recorder/base/torch_pch.h"

namespace whence::recorder::script {

// Returns true if a node after `at`, or a node in a later iteration of a loop around it, reads the value. Reads by `at`
// and by its own blocks do not count.
bool is_read_after(const torch::jit::Value& value, const torch::jit::Node& at);

// Returns true if an iteration of the loop reads the value, which was computed before the loop.
bool is_read_in(const torch::jit::Value& value, const torch::jit::Node& loop);

}  // namespace whence::recorder::script
