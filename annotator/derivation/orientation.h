// Which way a program reads its square weights: as they are, or transposed. Sizes do not tell.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"

namespace whence::derivation {

class Orientations {
 public:
  explicit Orientations(const std::vector<ProgramForm>& forms);

  // Returns true if matrix products of the file read a square parameter only the other way round than the program.
  bool is_transposed(const FileTensors& tensors, TensorNumber tensor, const Expression& expression) const;

 private:
  std::map<std::string, std::set<bool>, std::less<>> transposed_;  // by parameter: as the second operand of products
};

}  // namespace whence::derivation
