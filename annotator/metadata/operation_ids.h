// OperationIds: the identity of each recorded operation, independent of the front end that recorded it:
//
//   encoder.layer.0.fc/0/linear/1      module / call / operator / number of earlier such operators in the call
//
// The operator is ATen's name without overload; operators of equal meaning share a name (canonical_operator()). Front
// ends record different arithmetic on sizes, so it is counted separately: its operator begins with "size.".
// docs/metadata-spec.md states the guarantees.
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
  // `operations`: the program's operations, in execution order. Both arguments must outlive this object. Cost: one pass
  // over the operations; a hash table entry for each operator of each call.
  OperationIds(const Program& program, const std::vector<const Node*>& operations);

  std::string id(std::int32_t op) const;

 private:
  const Program& program_;
  const std::vector<const Node*>& operations_;
  std::vector<std::string> operators_;     // canonical names, without duplicates
  std::vector<std::int32_t> operator_of_;  // by operation, an index into operators_
  std::vector<std::int32_t> ordinal_of_;   // by operation, its number among equal operators in the call
};

// Returns a single identity unchanged and several as a JSON array without duplicates; nullopt if there are none.
std::optional<std::string> ids_text(std::vector<std::string> ids);

// Reverses ids_text() without checking the identities. Empty if the text is neither an identity nor an array of texts.
std::vector<std::string> parse_ids(std::string_view text);

// Returns true if the text has the form of an identity, in which call and ordinal are numbers.
bool is_id(std::string_view text);

}  // namespace whence::metadata
