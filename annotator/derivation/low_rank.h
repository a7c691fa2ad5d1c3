// LowRank: the change of a weight by a LoRA adapter, weight + scale * B A.
//
// Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021; file format of PEFT.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

struct LowRank {
  TensorData a, b;             // [rank, inputs, ...], [outputs, rank, ...]
  std::string name_a, name_b;  // in the adapter's file
  double scale = 1;
  bool transposed = false;  // the weight is [inputs, outputs]

  // Returns the changed weight, in its dtype. Sums are in double precision.
  TensorData applied_to(const TensorData& weight) const;
};

struct Adapter {
  std::map<std::string, LowRank> products;     // by name of the parameter
  std::map<std::string, TensorData> complete;  // parameters that are replaced

  std::int64_t size() const { return static_cast<std::int64_t>(products.size() + complete.size()); }
};

// Reads an adapter of PEFT: its file or folder, with adapter_config.json. Names are those of the model. Throws the
// errors of read_checkpoint(), and Error: unsupported_feature for adapters other than LoRA.
Adapter read_adapter(const std::string& path, Diagnostics& notes);

}  // namespace whence::derivation
