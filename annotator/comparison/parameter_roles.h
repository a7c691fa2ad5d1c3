// ParameterRoles: whether a program adds a parameter or multiplies by it. A file that adds the scale of a norm, and
// multiplies by its shift, computes something else.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/derivation/expression.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"

namespace whence::comparison {

class ParameterRoles {
 public:
  explicit ParameterRoles(const std::vector<derivation::ProgramForm>& forms);

  // Returns what the file does with a complete parameter, if the program does only the opposite: "added, where the
  // program multiplies by it"; "" otherwise.
  std::string difference(const derivation::FileTensors& tensors, derivation::TensorNumber tensor,
                         const derivation::Expression& expression) const;

 private:
  enum class Role : std::uint8_t { adds, multiplies, other };
  static Role role_of(std::string_view op_type, std::size_t slot);

  std::map<std::string, std::set<Role>, std::less<>> roles_;  // by parameter
};

}  // namespace whence::comparison
