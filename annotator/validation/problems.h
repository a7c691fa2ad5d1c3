// Problems: the results of a validation as a flat list, and in the formats of other tools.
#pragma once

#include <string>
#include <vector>

#include "annotator/validation/validate.h"

namespace whence::validation {

struct Problem {
  const Rule* rule = nullptr;
  std::string subject;  // node, value, module, ...; empty: the whole file
  std::string message;
};

// Returns the findings and shortfalls that --allow and --tolerance do not exclude.
std::vector<Problem> problems_of(const Validation& validation);

// Writes SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), for code scanning. `path`: the file's path in the
// repository.
std::string to_sarif(const Validation& validation, const std::string& path);
// Writes JUnit XML with one test case for each rule that ran.
std::string to_junit(const Validation& validation);
// Writes workflow commands of GitHub Actions, one line for each problem.
std::string to_github(const Validation& validation, const std::string& path);

}  // namespace whence::validation
