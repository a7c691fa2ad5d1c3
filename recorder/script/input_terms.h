// Makes terms of the arguments of forward. Tensors become inputs of the Program; containers are flattened; numbers,
// strings and None are literals with the example's values.
#pragma once

#include "recorder/script/quantized.h"

namespace whence::recorder::script {

// Returns the term of an argument. `values`: the argument in each run, null without example inputs; `type`: as
// declared. Throws Error unsupported_feature for dicts with tensors as keys.
Term input_term(Recording& recording, Quantized& quantized, const PerRun<const c10::IValue*>& values,
                const c10::TypePtr& type, const std::string& name);

}  // namespace whence::recorder::script
