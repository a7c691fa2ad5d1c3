// The operator families: one file and one accessor each. A family's table is at the end of its file; op_table.cpp lists
// the families. A new operator needs no change here; a new family needs one line here and one in op_table.cpp.
#pragma once

#include <span>

#include "annotator/convert/ctx.h"

namespace whence::convert {

using OpFamily = std::span<const OpEntry>;

// elementwise, reductions, shapes
OpFamily activation_ops();
OpFamily arithmetic_ops();
OpFamily comparison_ops();
OpFamily reduction_ops();
OpFamily shape_ops();
OpFamily creation_ops();
OpFamily index_ops();
OpFamily cast_ops();
OpFamily division_ops();
OpFamily joining_ops();
OpFamily scatter_ops();
OpFamily slicing_ops();
OpFamily special_ops();
OpFamily unary_ops();

// layers
OpFamily linear_ops();
OpFamily einsum_ops();
OpFamily grouped_matmul_ops();
OpFamily convolution_ops();
OpFamily pooling_ops();
OpFamily adaptive_pooling_ops();
OpFamily normalization_ops();
OpFamily softmax_ops();
OpFamily attention_ops();
OpFamily embedding_ops();
OpFamily recurrent_ops();
OpFamily resize_ops();
OpFamily grid_ops();
OpFamily rearrange_ops();
OpFamily padding_ops();

// other families
OpFamily sorting_ops();
OpFamily repeat_ops();
OpFamily segment_ops();
OpFamily window_ops();
OpFamily random_ops();
OpFamily statistics_ops();
OpFamily quantile_ops();
OpFamily vector_ops();
OpFamily matrix_ops();
OpFamily solve_ops();
OpFamily quantization_ops();
OpFamily running_ops();
OpFamily spectral_ops();
OpFamily loss_ops();
OpFamily symbolic_ops();
OpFamily sequence_ops();
OpFamily detection_ops();
OpFamily onnx_native_ops();

}  // namespace whence::convert
