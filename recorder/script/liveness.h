// Which values of a graph are read again. Loops count: what a later iteration reads is read again.
#pragma once

#include "recorder/base/torch_pch.h"

namespace whence::recorder {

// True if a node reads the value after `at` and what it contains.
bool is_read_after(const torch::jit::Value& value, const torch::jit::Node& at);

// True if an iteration of the loop reads the value, which was computed before the loop.
bool is_read_in(const torch::jit::Value& value, const torch::jit::Node& loop);

}  // namespace whence::recorder
