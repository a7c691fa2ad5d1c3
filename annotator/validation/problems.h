// Problems: what a validation found, one by one, in the forms that other tools read.
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

// Findings that --allow and --tolerance take out are not among them.
std::vector<Problem> problems_of(const Validation& validation);

// SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), for code scanning. `path` is the file's place in the
// repository.
std::string to_sarif(const Validation& validation, const std::string& path);
// JUnit XML: a test case a rule that was looked for.
std::string to_junit(const Validation& validation);
// Workflow commands of GitHub Actions, one line a problem.
std::string to_github(const Validation& validation, const std::string& path);

}  // namespace whence::validation
