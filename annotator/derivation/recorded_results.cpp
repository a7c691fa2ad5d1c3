#include "annotator/derivation/recorded_results.h"

#include <algorithm>
#include <unordered_map>

#include "schema/program_walk.h"

namespace whence::derivation {
namespace {

// What a value was computed from, besides constants of the program; the last one decides.
enum class Origin : std::uint8_t { constants, known_buffer, unknown_buffer, checkpoint };

Origin origin_of(const Parameter& parameter) {
  if (parameter.persistent) return Origin::checkpoint;
  return parameter.data.bytes.in_memory() ? Origin::known_buffer : Origin::unknown_buffer;
}

}  // namespace

void forget_recorded_results(Program& program) {
  std::unordered_map<ValueId, Origin> origins;
  for (const ValueId id : program.values.keys()) {
    const Value& value = program.values[id];
    if (value.source == ValueSource::parameter) origins[id] = origin_of(program.parameters[ParameterId(value.index)]);
  }
  each_node(program.body, [&](const Node& node) {
    Origin origin = Origin::constants;
    const auto look_at = [&](ValueId id) {
      if (const auto found = origins.find(id); found != origins.end()) origin = std::max(origin, found->second);
    };
    each_operand(node, look_at);
    for (const Block& block : node.blocks) each_value_read(block, look_at);
    for (const ValueId output : node.outputs) {
      Value& value = program.values[output];
      // The sizes of a parameter do not depend on its elements.
      if (value.type.kind != ValueKind::tensor) continue;
      origins[output] = origin;
      // A sidecar leaves out large constants.
      const bool is_left_out = value.known != none_id && !program.constants[value.known].data.bytes.in_memory();
      if (origin == Origin::constants && !is_left_out) continue;
      const bool may_be_size = !is_floating(value.type.dtype) && !is_left_out;
      if (may_be_size || value.known == none_id || origin == Origin::unknown_buffer) continue;
      Bytes& bytes = program.constants[value.known].data.bytes;
      if (origin == Origin::checkpoint) bytes = Bytes::left_out(bytes.size());
      value.known = none_id;
    }
  });
}

}  // namespace whence::derivation
