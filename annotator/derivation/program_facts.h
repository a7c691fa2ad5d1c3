// ProgramFacts: what a recorded program says about its parameters, by which derive() chooses between expressions.
#pragma once

#include <vector>

#include "annotator/derivation/norm_pairs.h"
#include "annotator/derivation/orientation.h"
#include "annotator/derivation/product_chains.h"
#include "annotator/derivation/program_forms.h"
#include "schema/program.h"

namespace whence::derivation {

struct ProgramFacts {
  std::vector<NormPair> pairs = {};
  std::vector<ProductChain> chains = {};
  Orientations orientations = Orientations({});

  ProgramFacts() = default;
  ProgramFacts(const Program& program, const std::vector<ProgramForm>& forms)
      : pairs(norm_pairs(program)), chains(product_chains(forms)), orientations(forms) {}
};

}  // namespace whence::derivation
