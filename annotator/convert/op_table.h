// The operator table: every converter under its operator's key ("aten::gelu", "aten::add.Tensor"). The keys come from
// the schema strings of the families. A schema is parsed on first use, so that a lookup parses only one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/convert/ctx.h"

namespace whence::convert {

class OpTable {
 public:
  // The one table of this process. Throws Error(internal) when two lines have the same key. Not thread-safe.
  static OpTable& get();

  // Returns the entry for `key`; nullptr if there is no converter.
  const OpEntry* find(std::string_view key) const;
  // Returns the parsed schema of an operator that find() finds, else nullptr. The pointer stays valid.
  const OpSchema* schema(std::string_view key);
  // Returns the overloads of an operator that have converters, for remedies: "aten::add" -> {"aten::add.Tensor", ...}.
  std::vector<std::string> overloads(std::string_view name) const;
  // Returns all keys, sorted.
  std::vector<std::string> keys() const;

 private:
  OpTable();
  struct Line {
    const OpEntry* entry = nullptr;
    std::unique_ptr<OpSchema> schema;
  };
  std::unordered_map<std::string_view, Line> lines_;  // keys are views into the schema strings
};

}  // namespace whence::convert
