#include "annotator/lower/written_state.h"

#include <map>
#include <unordered_map>

#include "annotator/lower/in_place.h"
#include "schema/operator_facts.h"

namespace whence::lower {

std::vector<WrittenState> written_state(const Program& program) {
  std::unordered_map<ValueId, ValueId> viewed;  // indexed by result
  const auto owner = [&](ValueId id) {
    for (auto base = viewed.find(id); base != viewed.end(); base = viewed.find(id)) id = base->second;
    return id;
  };
  std::map<ValueId, ValueId> written;
  for (const Node& node : program.body.nodes) {
    const auto memory = shared_memory(program, node);
    if (!memory || node.outputs.empty()) continue;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) viewed.emplace(node.outputs[i], owner(memory->values[i]));
    const ValueId base = owner(memory->values.front());
    const ValueSource source = program.values[base].source;
    const bool lives_on = source == ValueSource::parameter || source == ValueSource::input;
    if (memory->written && lives_on && !facts_of(node.target).keeps_content) {
      written[base] = node.outputs.front();
    }
  }
  std::vector<WrittenState> states;
  for (const auto& [state, holds] : written) states.push_back({state, holds});
  return states;
}

}  // namespace whence::lower
