// An operator of the archive and its tensors, as the rules see them that say what becomes of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/dtype.h"

namespace whence {

// What an archive says of a tensor; a symbolic size is -1.
struct TensorFacts {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> sizes;

  std::int64_t rank() const { return static_cast<std::int64_t>(sizes.size()); }
};

// An operator of the archive, as a rule sees it.
struct FxCall {
  struct Given {
    std::string_view name;  // by the schema
    std::string text;
    std::string_view value;  // the archive's name of the tensor; empty for anything else
    bool keyword = false;
    std::vector<std::string_view> values = {};  // of a list of tensors
  };
  std::string op, overload;  // "aten.view", "default"
  std::vector<Given> given;
  std::vector<std::string_view> results;  // the archive's names, also of those in a list
  bool several = false;
  bool in_place = false;  // "aten.add_", of which `op` is "aten.add"

  const Given* find(std::string_view name) const;
  std::string text(std::string_view name, std::string otherwise = "None") const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  std::vector<std::int64_t> integers(std::string_view name) const;  // of "[1, 2]"
};

}  // namespace whence
