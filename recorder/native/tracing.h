// Runs a module's forward under LibTorch's tracer, at one size or several, and makes a TorchScript module from it with
// a method for each call of a module.
#pragma once

#include <set>

#include "recorder/native/dynamic_sizes.h"
#include "recorder/native/scopes.h"
#include "schema/result.h"
#include "whence/record.h"

namespace whence::native {

struct TracedModule {
  torch::jit::Module module;
  Report report;
  std::set<std::string> changed_buffers;       // buffers that forward changes; they were restored
  std::set<std::string> data_sized_operators;  // operators whose results' sizes depend on data
};

// `sizes` and `resized` describe the traces at other sizes: resized[k] holds the inputs of trace k + 1. Traces after
// the second are dropped if forward fails. Returns baked_size if forward does not accept the first of the other sizes.
// Throws Error: run_failed (forward threw), baked_size (for another reason), unsupported_feature (values read into the
// program), module_in_use.
Result<TracedModule> trace_module(torch::nn::Module& module, const Inputs& inputs,
                                  const std::vector<std::string>& names, const Forward& forward,
                                  std::vector<TracedSize> sizes, const std::vector<Inputs>& resized);

}  // namespace whence::native
