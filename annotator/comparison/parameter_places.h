// Where a program reads its parameters, against where a file reads the tensors that are made of them.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns the operations that read the parameter of a constant value, perhaps moved or dequantised; empty if there is
// none.
std::vector<std::int32_t> readers_of_parameter(std::string_view value, const derivation::FileTensors& tensors,
                                               const std::vector<derivation::Derivation>& derivations,
                                               const match::Reference& reference);

// Returns the operations that read the factors and addends by channel in an expression.
std::set<std::int32_t> readers_of_folded(const derivation::Expression& expression, const match::Reference& reference);

// Makes tensors unaccounted that are read where the program reads another parameter of the same size. `nodes`: those of
// the report.
void refuse_misplaced(const std::vector<const onnx_file::OnnxNode*>& nodes, const match::MatchReport& report,
                      const match::Reference& reference, const derivation::FileTensors& tensors, const Wiring& program,
                      std::vector<derivation::Derivation>& derivations);

}  // namespace whence::comparison
