// Derivations: where each constant tensor of an ONNX file comes from. Finds an expression by content, names and the
// graph, and proves it: computed again, it gives the tensor's bytes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/expression.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_constants.h"
#include "annotator/derivation/program_facts.h"
#include "annotator/derivation/rounding_noise.h"
#include "annotator/derivation/weights.h"

namespace whence::derivation {

enum class Verdict : std::uint8_t {
  exact,        // the expression gives the same bytes
  bounded,      // it gives each element within the rounding of the arithmetic that the tool used
  constant,     // a constant of the program
  calibrated,   // the range of an activation: measured by a tool, and in no checkpoint
  unaccounted,  // unknown
};
inline constexpr std::array all_verdicts = {Verdict::exact, Verdict::bounded, Verdict::constant, Verdict::calibrated,
                                            Verdict::unaccounted};
std::string_view name_of(Verdict verdict);

struct Derivation {
  Verdict verdict = Verdict::unaccounted;
  std::optional<Expression> expression = {};     // for exact and bounded
  std::string remark = {};                       // why a tensor is unaccounted, or how far a bounded one differs
  std::uint64_t bytes = 0;                       // of the tensor
  std::optional<RoundingCounts> roundings = {};  // of integers that are near those of a parameter
};

// Returns a derivation for each tensor, in the order of `tensors`. Reads the checkpoint once for each dtype of the
// file, and the file once. `constants` may be null.
std::vector<Derivation> derive(const FileTensors& tensors, Contents& contents, const Weights& weights,
                               const ProgramConstants* constants, const ProgramFacts& facts = {});

}  // namespace whence::derivation
