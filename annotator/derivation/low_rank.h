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
  TensorData a, b;  // [rank, inputs, ...], [outputs, rank, ...]
  double scale = 1;
  bool transposed = false;  // the weight is [inputs, outputs]

  // Returns the changed weight, in its dtype. Sums are in double precision.
  TensorData applied_to(const TensorData& weight) const;
};

struct Adapter {
  std::map<std::string, LowRank> products;     // by name of the parameter
  std::map<std::string, TensorData> complete;  // parameters that are replaced
};

// Reads an adapter. Names are those of the model. Throws as Weights::adapt().
Adapter read_adapter(const std::string& path, Diagnostics& notes);

}  // namespace whence::derivation
