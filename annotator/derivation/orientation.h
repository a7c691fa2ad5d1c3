// Which way a program reads its square weights and kernels: as they are, or transposed. Sizes do not tell.
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

  // Returns true if matrix products of the file read a square parameter only the other way round than the program, or
  // its convolutions a kernel whose axes are exchanged.
  bool is_transposed(const FileTensors& tensors, TensorNumber tensor, const Expression& expression) const;

 private:
  bool has_turned_kernel(const FileTensors& tensors, TensorNumber tensor, const Expression& expression) const;

  std::set<std::string> kernels_;                                  // parameters that convolutions read as they are
  std::map<std::string, std::set<bool>, std::less<>> transposed_;  // by parameter: as the second operand of products
};

}  // namespace whence::derivation
