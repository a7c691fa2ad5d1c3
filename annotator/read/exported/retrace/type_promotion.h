// Operators whose arguments are of several dtypes, after PyTorch's exporter has made them one.
// Source: torch/onnx/_internal/fx/passes/type_promotion.py of PyTorch 2.13.
#pragma once

#include "annotator/read/exported/retrace/fx_graph.h"

namespace whence {

// Of nodes that are alive: numbers become aten.scalar_tensor, tensors go through prims.convert_element_type.
void promote_types(FxGraph& graph);

}  // namespace whence
