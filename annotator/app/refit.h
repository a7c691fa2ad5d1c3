// Refits an ONNX file: puts the weights of another checkpoint into a file that was exported, optimised and quantised,
// by computing each of its tensors again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::app {

struct RefitOptions {
  // The checkpoint that the file was made from, or the statement of `whence attest` that was made with it.
  std::string base = {}, statement = {};
  std::string weights = {};     // the new checkpoint; `base` if only `lora` is new
  std::string lora = {};        // an adapter of PEFT: a file or its folder
  bool lora_as_inputs = false;  // the adapter becomes nodes and inputs; false: it is merged into the weights
  bool keep_scales = false;     // of weights: the integers are computed with the file's scales and zero points
  std::string sidecar = {};     // the program, whose constants are not in the checkpoint
  std::string output = {};      // empty: only checks
  bool overwrite = false;
};

struct RefitReport {
  std::int64_t replaced = 0;              // tensors that were computed again
  std::int64_t constants = 0;             // tensors of the program, which stay
  std::int64_t calibrated = 0;            // ranges of activations, which stay
  std::vector<std::string> bounded = {};  // replaced tensors whose arithmetic is known up to rounding
  std::vector<std::string> unused = {};   // parameters of the checkpoint that the file does not hold
  std::int64_t adapted = 0;               // parameters that the adapter changes
  std::int64_t products = 0;              // nodes beside which products of the adapter were added
  Diagnostics notes = {};
};

// Writes nothing if a tensor is unaccounted, a parameter is missing or has other sizes, or one tensor stands for
// parameters that are no longer equal: Error(weights_mismatch), one diagnostic for each. Errors: as reading the files;
// usage without `base` and `statement`.
RefitReport refit(const std::string& model, const RefitOptions& options);

}  // namespace whence::app
