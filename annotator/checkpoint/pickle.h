// Pickle: what a pickle holds, as a tree of values. Nothing is imported and nothing called: a call is a value with the
// name of its function and its arguments.
//
// Source of the codes: Python's pickletools, protocols 2 to 5, those that torch.save and pickle.dump write.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/result.h"

namespace whence::checkpoint {

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, list, tuple, dict, global, call, persistent };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // a boolean too
  double number = 0;
  std::string text = {};                       // a text; a global's "module name"
  std::vector<const PickleValue*> items = {};  // a list's or tuple's; a call's function and arguments; a persistent id
  // A dict's, and those that were set on a call's result: OrderedDict is a call.
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries = {};
  const PickleValue* state = nullptr;  // a call's: what its result was given to build itself from

  bool is(Kind wanted) const { return kind == wanted; }
  bool calls(std::string_view function) const {
    return kind == Kind::call && !items.empty() && items[0]->kind == Kind::global && items[0]->text == function;
  }
  // The entry under a text; null when there is none.
  const PickleValue* find(std::string_view key) const;
};

// Values may refer to each other in a circle: who walks them counts the steps.
class Pickle {
 public:
  // Throws Error(corrupt_file) with `place`, or unsupported_feature for a code that only other programs write.
  Pickle(std::string_view bytes, const Place& place);
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace whence::checkpoint
