// The recurrent layers of recorded operations of PyTorch that exporters write as one part for each step (RNN with tanh
// or relu): in the order in which an operation computes them, with the names of their parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/program.h"

namespace whence::comparison {

// One direction of one layer: h[t] = activation(input_weight x[t] + weight h[t - 1] + biases).
struct RecordedLayer {
  std::string input_weight, weight;
  std::vector<std::string> biases = {};  // none or two
  bool is_reverse = false;               // begins with the last step
};

struct RecordedLayers {
  std::int32_t operation = -1;
  std::string activation;                  // the ONNX operator
  std::int64_t steps = 0;                  // of the recorded example
  std::size_t directions = 1;              // of each layer
  std::vector<RecordedLayer> layers = {};  // all directions of the first layer, then those of the next
};

// Returns the operations whose number of steps is fixed, whose parameters are those of the model, and whose states
// start from zeros.
std::vector<RecordedLayers> recorded_layers(const Program& program);

}  // namespace whence::comparison
