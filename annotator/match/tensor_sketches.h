// ParameterSketches: finds the parameters of a reference that an initializer holds if a tool changed its bytes:
// quantised, with a batch norm folded in, transposed, as one of several blocks, as a piece of a split weight. Compares
// sketches (schema/tensor_sketch.h) row by row, so that neither scales nor signs of rows matter.
#pragma once

#include <map>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/tensor_sources.h"
#include "annotator/match/weight_elements.h"
#include "schema/tensor_sketch.h"

namespace whence::match {

struct SketchFindings {
  // The parameters that are more similar to the tensor than chance and any rival; one or more for each block of a
  // tensor with several blocks. Empty if too many are similar.
  std::vector<TensorSource> sources;
  bool recognised = false;  // some parameter is similar, perhaps too many
  bool comparable = false;  // some parameter with varied elements has the tensor's form
};

class ParameterSketches {
 public:
  explicit ParameterSketches(const Reference& reference);

  bool empty() const { return forms_.empty(); }

  // Reads some hundred elements. Safe from any thread.
  SketchFindings find(const WeightElements& tensor) const;

 private:
  struct Form {
    SketchPlaces places;
    std::vector<ParameterIndex> parameters;
    bool is_varied = false;  // a parameter has different elements
  };
  const Reference& reference_;
  std::map<MatrixForm, Form> forms_;
};

}  // namespace whence::match
