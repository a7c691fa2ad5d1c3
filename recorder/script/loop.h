// Evaluates prim::Loop. A loop whose trip count and conditions are settled is unrolled; any other becomes a node whose
// body is a nested block (data_loop.h).
#pragma once

#include "recorder/script/block_runner.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

void carry_out_loop(Recording& recording, BlockRunner& blocks, const Step& step);

}  // namespace whence::recorder::script
