// The arguments of forward as terms. Tensors become inputs of the Program; containers are flattened; numbers, strings
// and None are what the example says.
#pragma once

#include "recorder/script/quantized.h"

namespace whence::recorder {

// `values`: what each run passes, null where there are no example inputs; `type` as declared. Throws Error
// unsupported_feature for dicts with tensors as keys.
Term input_term(Recording& recording, Quantized& quantized, const PerRun<const c10::IValue*>& values,
                const c10::TypePtr& type, const std::string& name);

}  // namespace whence::recorder
