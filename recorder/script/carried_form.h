// How a variable of a loop on data, or a list, dict or attribute that the loop changes, is carried from iteration to
// iteration: as a value, by its parts, as a sequence, as a flag and a content, or not at all.
#pragma once

#include "recorder/script/recording.h"

namespace whence::recorder {

struct CarriedForm {
  enum class Kind : std::uint8_t { value, sequence, container, same };
  Kind kind = Kind::value;
  Term start, after;                 // what it is before the loop and after an iteration; in a container, of its part
  c10::TypePtr type;                 // as declared
  DType element = DType::undefined;  // of a sequence, when `start` does not say
  std::vector<CarriedForm> items;    // of a container
};

// What the variable is before the loop and after an iteration decides: containers that keep their size are carried by
// their parts, lists that grow as a sequence. Throws Error unsupported_feature for other containers.
CarriedForm form_of(const Recording& recording, const Term& before, const Term& then, const c10::TypePtr& declared);

// The variable with the carried values, one after the other, in their places.
Term with_leaves(const CarriedForm& form, std::vector<Term>::const_iterator& leaf, int depth);

// Adds the values in a variable as an iteration leaves it. Throws Error unsupported_feature where it has another form.
void add_leaves(Recording& recording, const CarriedForm& form, const Term& found, const Origin& origin,
                std::vector<Term>& leaves);

// True if both are carried alike.
bool same_form(const Term& a, const Term& b);

}  // namespace whence::recorder
