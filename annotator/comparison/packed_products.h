// Packed products: one product of a file for several of the program that read the same value, such as the projections
// of query, key and value, with their weights one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns the constant that a value is, perhaps moved or dequantised.
derivation::TensorNumber constant_of(std::string_view value, const derivation::FileTensors& tensors);

using Fits = std::function<bool(const onnx_file::OnnxNode&, std::int32_t operation)>;

// Returns the operations that read the parameters of the node's weight or bias, in the order of its pieces; empty
// unless there are several pieces, each a complete parameter, and one operation that fits reads each of them.
std::vector<std::int32_t> packed_operations(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors,
                                            const std::vector<derivation::Derivation>& derivations,
                                            const match::Reference& reference, const Fits& fits);

// Returns the share of a parameter's elements that the weight of a product or the constant of a sum holds; 1 if it
// holds all of them, or has no such constant.
double share_of(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors,
                const std::vector<derivation::Derivation>& derivations);

// Returns true for a product or norm of a standard operator with a parameter, into which nothing was folded.
bool is_plain(const onnx_file::OnnxNode& node, const derivation::FileTensors& tensors,
              const std::vector<derivation::Derivation>& derivations);

// The operations of packed products, by node, in the order of the pieces.
using PackedProducts = std::map<const onnx_file::OnnxNode*, std::vector<std::int32_t>>;

// Returns the operations of the nearest products before a value; of a packed one only that of the piece from which the
// value is computed. `operations_of`: those of any other product; empty if they are uncertain.
std::set<std::int32_t> products_before(
    std::string_view value, const derivation::FileTensors& tensors, const PackedProducts& packed,
    const std::function<std::vector<std::int32_t>(const onnx_file::OnnxNode&)>& operations_of);

// Returns the first rows of parameters that the weights of the nearest products before a value hold; empty if they are
// unknown.
std::set<std::int64_t> first_rows_before(std::string_view value, const derivation::FileTensors& tensors,
                                         const std::vector<derivation::Derivation>& derivations);

}  // namespace whence::comparison
