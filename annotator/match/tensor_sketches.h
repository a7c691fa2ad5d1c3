// ParameterSketches: finds the parameters of a reference that an initializer holds where a tool changed its bytes: in
// integers, with a batch norm folded in, transposed, as one of several blocks, as a piece of a weight that was split.
// Their sketches (schema/tensor_sketch.h) are compared row by row, so that neither scales nor signs of rows matter.
#pragma once

#include <map>
#include <vector>

#include "annotator/match/reference.h"
#include "annotator/match/tensor_sources.h"
#include "annotator/match/weight_elements.h"
#include "schema/tensor_sketch.h"

namespace whence::match {

struct SketchFindings {
  // Those that are more like the tensor than chance and than any rival allow; of a tensor made of several, one or more
  // for each block. Empty where too many are alike.
  std::vector<TensorSource> sources;
  bool recognised = false;  // some parameter is alike, perhaps too many
  bool comparable = false;  // some parameter of varied elements has as many of them as the tensor, in rows as long
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
    bool is_varied = false;  // the elements of one of them are not all alike
  };
  const Reference& reference_;
  std::map<MatrixForm, Form> forms_;
};

}  // namespace whence::match
