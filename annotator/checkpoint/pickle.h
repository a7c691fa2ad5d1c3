// Pickle: the content of a pickle as a tree of values. Imports nothing and calls nothing: a call becomes a value with
// the function's name and its arguments.
//
// Source of the opcodes: Python's pickletools, protocols 2 to 5, which torch.save and pickle.dump write.
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
  std::int64_t integer = 0;  // also holds a boolean
  double number = 0;
  std::string text = {};                       // a string; "module name" of a global
  std::vector<const PickleValue*> items = {};  // of a list or tuple; function and arguments of a call; a persistent id
  // Entries of a dict, or entries set on the result of a call: OrderedDict is a call.
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries = {};
  const PickleValue* state = nullptr;  // the state set on the result of a call (opcode BUILD)

  bool is(Kind expected) const { return kind == expected; }
  bool calls(std::string_view function) const {
    return kind == Kind::call && !items.empty() && items[0]->kind == Kind::global && items[0]->text == function;
  }
  // Returns the entry under a string key; null if there is none.
  const PickleValue* find(std::string_view key) const;
};

// Values may refer to each other in a cycle, so callers must limit their steps.
class Pickle {
 public:
  // Throws Error(corrupt_file) with `place`, or unsupported_feature for an opcode that torch.save never writes.
  Pickle(std::string_view bytes, const Place& place);
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace whence::checkpoint
