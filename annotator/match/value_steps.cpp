#include "annotator/match/value_steps.h"

#include <algorithm>

#include "annotator/match/op_class.h"

namespace whence::match {

template <Side S>
bool may_be_stepped_over(const Structure<S>& s, NodeIndex<S> node) {
  return may_be_without_effect(s.nodes[node].op_class) && !s.reads_weights(node);
}

template <Side S>
std::vector<ValueIndex<S>> values_before(const Structure<S>& s, ValueIndex<S> value) {
  std::vector<ValueIndex<S>> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * max_steps; ++i) {
    for (const NodeIndex<S> producer : s.makers(chain[i])) {
      if (!may_be_stepped_over(s, producer) && !is_activation(s.nodes[producer].op_class)) continue;
      ValueIndex<S> only;
      int count = 0;
      for (const ValueIndex<S> input : s.data_inputs(producer)) {
        if (!input.exists()) continue;
        ++count;
        only = input;
      }
      if (count == 1 && std::find(chain.begin(), chain.end(), only) == chain.end()) chain.push_back(only);
    }
  }
  return chain;
}

template <Side S>
std::vector<ValueIndex<S>> values_after(const Structure<S>& s, ValueIndex<S> value, std::size_t max_uses) {
  std::vector<ValueIndex<S>> chain = {value};
  for (std::size_t i = 0; i < chain.size() && chain.size() <= 3 * max_steps; ++i) {
    const auto& uses = s.heavy_uses(chain[i]);
    if (uses.size() > max_uses) continue;
    for (const auto& use : uses) {
      const auto& node = s.nodes[use.node];
      if (node.outputs.empty() || !node.outputs[0].exists()) continue;
      // A node that scales or shifts by channel is often folded into the product before it.
      if (!may_be_stepped_over(s, use.node) && !may_be_folded(node.op_class)) continue;
      const ValueIndex<S> next = s.loose(node.outputs[0]);
      if (std::find(chain.begin(), chain.end(), next) == chain.end()) chain.push_back(next);
    }
  }
  return chain;
}

template bool may_be_stepped_over(const ForeignStructure&, ForeignNode);
template bool may_be_stepped_over(const ReferenceStructure&, ReferenceNode);
template std::vector<ForeignValue> values_before(const ForeignStructure&, ForeignValue);
template std::vector<ReferenceValue> values_before(const ReferenceStructure&, ReferenceValue);
template std::vector<ForeignValue> values_after(const ForeignStructure&, ForeignValue, std::size_t);
template std::vector<ReferenceValue> values_after(const ReferenceStructure&, ReferenceValue, std::size_t);

}  // namespace whence::match
