// OperationIds: the identity of each recorded operation, the same whichever front end recorded it:
//
//   encoder.layer.0.fc/0/linear/1      module / call of it / operator / how many of that operator came before in the
//   call
//
// The operator is ATen's name without overload, by the name that operators of one meaning have in common:
// canonical_operator(). Arithmetic on sizes, of which each front end records another lot, is counted apart: its
// operator begins with "size.". docs/metadata-spec.md says what is promised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/program.h"

namespace whence::metadata {

// "aten::add_" -> "add", "aten::view" -> "reshape", "mine::gate" -> "mine::gate".
std::string canonical_operator(std::string_view target);

class OperationIds {
 public:
  // `operations`: those of the program, in execution order. Both must outlive the identities.
  // Cost: one walk over them, a hash table entry for each operator of each call.
  OperationIds(const Program& program, const std::vector<const Node*>& operations);

  std::string id(std::int32_t op) const;

 private:
  const Program& program_;
  const std::vector<const Node*>& operations_;
  std::vector<std::string> operators_;     // canonical, each once
  std::vector<std::int32_t> operator_of_;  // by operation, an index of operators_
  std::vector<std::int32_t> place_of_;     // by operation, its number among those of its operator in its call
};

// The identity of one operation as it is, several as a JSON array, each once; nothing for none.
std::optional<std::string> ids_text(std::vector<std::string> ids);

// The way back, without looking at the form of an identity. Empty where the text is neither.
std::vector<std::string> parse_ids(std::string_view text);

// True for a text of the form of an identity: call and ordinal are numbers.
bool is_id(std::string_view text);

}  // namespace whence::metadata
