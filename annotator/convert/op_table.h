// The operator table: every converter under its operator's key ("aten::gelu", "aten::add.Tensor").
// The keys come from the schema strings of the families; the schemas themselves are parsed on first use, so that
// looking one operator up costs nothing for the other thousand.
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

  // The line for `key`, nullptr when there is no converter.
  const OpEntry* find(std::string_view key) const;
  // The parsed schema of an operator that find() knows, else nullptr. The reference stays valid.
  const OpSchema* schema(std::string_view key);
  // Overloads of an operator that do have converters, for remedies: "aten::add" -> {"aten::add.Tensor", ...}.
  std::vector<std::string> overloads(std::string_view name) const;
  // Every key, sorted.
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
