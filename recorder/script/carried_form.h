// How a data-dependent loop carries a variable, or a list, dict or attribute that it changes, from iteration to
// iteration: as a value, by its parts, as a sequence, as a flag and a content, or not at all.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder::script {

struct CarriedForm {
  enum class Kind : std::uint8_t { value, sequence, container, same };
  Kind kind = Kind::value;
  Term start, after;                 // its value before the loop and after an iteration
  c10::TypePtr type;                 // as declared
  DType element = DType::undefined;  // dtype of a sequence's elements, if `start` does not show it
  std::vector<CarriedForm> items;    // the items of a container
};

// Chooses the form by the variable's value before the loop and after an iteration: containers that keep their size are
// carried by their parts, lists that grow as a sequence. Throws Error unsupported_feature for other containers.
CarriedForm form_of(const Recording& recording, const Term& before, const Term& then, const c10::TypePtr& declared);

// Builds the variable from its carried values, and advances `leaf` past them.
Term with_leaves(const CarriedForm& form, std::vector<Term>::const_iterator& leaf, int depth);

// Adds the carried values of a variable at the end of an iteration. Throws Error unsupported_feature if its form has
// changed.
void add_leaves(Recording& recording, const CarriedForm& form, const Term& found, const Origin& origin,
                std::vector<Term>& leaves);

// Returns true if both are carried in the same form.
bool same_form(const Term& a, const Term& b);

}  // namespace whence::recorder::script
