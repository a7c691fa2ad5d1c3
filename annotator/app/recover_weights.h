// Recovers the parameters of a model from an exported, optimised, quantised file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::app {

struct RecoverOptions {
  std::string base = {}, statement = {};  // as in RefitOptions
  std::string sidecar = {};
  bool splits_norms = false;  // products with a folded norm get the file's numbers, and the norm becomes neutral
  std::string output = {};    // a safetensors file; empty: only reports
  bool overwrite = false;
};

struct RecoverReport {
  std::vector<std::string> stored = {};         // with the numbers of the file, in its dtype
  std::vector<std::string> dequantised = {};    // float32, from integers and their scales
  std::vector<std::string> left_out = {};       // not in the file, because all elements were one number
  std::vector<std::string> equivalent = {};     // of a folded norm and its product: other numbers with the same effect
  std::vector<std::string> several_forms = {};  // also in the file with less precise numbers, for other readers
  std::vector<std::string> elsewhere = {};      // of parts of the checkpoint's model that were not recorded
  std::map<std::string, std::string> missing = {};  // with the reason
  Diagnostics notes = {};
};

// Writes the parameters that can be recovered completely. Throws Error: as refit().
RecoverReport recover_weights(const std::string& model, const RecoverOptions& options);

}  // namespace whence::app
