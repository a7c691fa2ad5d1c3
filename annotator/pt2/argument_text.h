// Prints an operator's arguments in an archive as torch.fx does.
#pragma once

#include <functional>
#include <string>

#include "annotator/pt2/part.h"

namespace whence::pt2 {

// `name_of(value)` returns the text of a value or graph.
std::string argument_text(const Part& argument, const std::function<std::string(const Part& value)>& name_of);

// Visits the names of the values in an argument, in order.
template <class Visit>
void each_value(const Part& argument, Visit visit) {
  argument_text(argument, [&](const Part& name) { return visit(name), std::string(); });
}

}  // namespace whence::pt2
