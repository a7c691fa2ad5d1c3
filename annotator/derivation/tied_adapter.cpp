#include "annotator/derivation/tied_adapter.h"

#include <algorithm>

#include "schema/printable.h"
#include "schema/program_walk.h"

namespace whence::derivation {
namespace {

const Parameter* parameter_of(const Program& program, const std::string& name) {
  const auto found = std::ranges::find_if(program.parameters, [&](const Parameter& each) {
    return each.name == name || std::ranges::find(each.aliases, name) != each.aliases.end();
  });
  return found == program.parameters.end() ? nullptr : &*found;
}

int reads_of(const Program& program, const Parameter& parameter) {
  int reads = 0;
  each_node(program.body, [&](const Node& node) {
    bool is_read = false;
    each_operand(node, [&](ValueId id) {
      const Value& value = program.values[id];
      is_read = is_read ||
                (value.source == ValueSource::parameter && &program.parameters[ParameterId(value.index)] == &parameter);
    });
    reads += is_read ? 1 : 0;
  });
  return reads;
}

}  // namespace

int reads_of_tied(const Program& program, const std::string& name, const std::string& other) {
  const Parameter* const parameter = parameter_of(program, name);
  return parameter == nullptr || parameter != parameter_of(program, other) ? 0 : reads_of(program, *parameter);
}

std::vector<std::string> extend_to_tied_names(Adapter& adapter, const Program& program, const Weights& weights) {
  std::vector<std::string> problems;
  const auto extend = [&](auto& changes) {
    for (const auto& [changed, change] : std::map(changes)) {
      if (weights.find(changed) == nullptr) continue;
      const std::string name = weights.tensor_name(changed);
      const Parameter* const parameter = parameter_of(program, name);
      if (parameter == nullptr || parameter->aliases.empty()) continue;
      std::vector<std::string> others = parameter->aliases;
      others.push_back(parameter->name);
      const int reads = reads_of(program, *parameter);
      for (const std::string& other : others) {
        if (other == name || weights.find(other) == nullptr) continue;
        if (weights.tensor_name(other) == name) {
          if (reads > 1) {
            problems.push_back("the adapter changes '" + printable(changed) + "', which is also '" + printable(other) +
                               "' and read by " + std::to_string(reads) + " operations: it changes one of them");
          }
        } else if (reads <= 1) {
          changes.emplace(other, change);
        }
      }
    }
  };
  extend(adapter.products);
  extend(adapter.complete);
  return problems;
}

}  // namespace whence::derivation
