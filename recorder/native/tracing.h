// Runs a module's forward under LibTorch's tracer, at one size or at several, and makes a TorchScript module of it
// whose methods are the calls of the modules.
#pragma once

#include <set>

#include "recorder/native/dynamic_sizes.h"
#include "recorder/native/scopes.h"
#include "schema/result.h"
#include "whence/record.h"

namespace whence::native {

struct Traced {
  torch::jit::Module module;
  Report report;
  std::set<std::string> changed;           // buffers that forward changes; they were restored
  std::set<std::string> sized_by_content;  // operators whose results are as long as the data have it
};

// `sizes` and `resized` are for the other traces: resized[k] holds the inputs of trace k + 1. Traces after the second
// drop out if forward fails. Returns baked_size if forward does not accept the first of the other sizes. Throws Error:
// run_failed (forward threw), baked_size (another reason), unsupported_feature (values read into the program),
// module_in_use.
Result<Traced> trace_module(torch::nn::Module& module, const Inputs& inputs, const std::vector<std::string>& names,
                            const Forward& forward, std::vector<TracedSize> sizes, const std::vector<Inputs>& resized);

}  // namespace whence::native
