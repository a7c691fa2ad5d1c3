// Loop(n, true, state) { x_i = Gather(x, i); .. }      before: one iteration per element of the first axis of x
// Scan(state, x) { x_i is an input; .. }               after
// Condition: only these Gathers read the iteration number, nothing in the body ends the loop, and the first axis of x
// is never empty: ONNX Runtime's Scan refuses an empty x. Origins: the loop's; the Gathers disappear.
#include <algorithm>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence::simplify {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

bool is_true(const Graph& graph, GraphValueId value) {
  const TensorData* data = graph.constant(value);
  return data != nullptr && data->dtype == DType::boolean && single_integer(*data) == 1;
}

// Returns true if the loop condition is constant and true, at the start and after each iteration.
bool never_ends_early(const Graph& graph, const GraphNode& loop, const Graph& body) {
  if (loop.inputs[1] != no_value && !is_true(graph, loop.inputs[1])) return false;
  const GraphValueId next = body.outputs.front();
  const std::int32_t producer = body.values[next].producer;
  if (producer < 0) return is_true(body, next);
  const GraphNode& node = body.nodes[producer];
  return is(node, "Identity") && is_true(body, node.inputs[0]);
}

bool never_empty(const Graph& graph, const Dim& dim) {
  if (dim.is_static()) return dim.size > 0;
  return dim.symbol != none_id && range_of(graph.symbols[dim.symbol]).min > 0;
}

// Returns true if the trip count is known to be the size of x's first axis.
bool iterates_over(const Graph& graph, GraphValueId count, GraphValueId x) {
  const auto& dims = graph.values[x].dims;
  if (!dims || dims->empty() || !never_empty(graph, dims->front())) return false;
  if (const TensorData* data = graph.constant(count)) {
    return dims->front().is_static() && single_integer(*data) == dims->front().size;
  }
  const std::int32_t squeeze = graph.values[count].producer;
  if (squeeze < 0 || !is(graph.nodes[squeeze], "Squeeze")) return false;
  const std::int32_t shape = graph.values[graph.nodes[squeeze].inputs[0]].producer;
  if (shape < 0 || !is(graph.nodes[shape], "Shape") || graph.nodes[shape].int_attribute("start", 0) != 0) return false;
  const GraphValueId measured = graph.nodes[shape].inputs[0];
  if (measured == x) return true;
  const auto& measured_dims = graph.values[measured].dims;
  return measured_dims && !measured_dims->empty() && dims->front().dynamic && dims->front().symbol != none_id &&
         dims->front() == measured_dims->front();
}

// Returns the nodes of the body that read the iteration number; nullopt if one of them is not a Gather that slices an
// outer tensor.
std::optional<std::vector<std::int32_t>> slices(const Graph& graph, const GraphNode& loop, const Graph& body) {
  const auto uses = body.uses();
  if (!uses[body.inputs[1]].empty()) return std::nullopt;
  std::vector<std::int32_t> found = uses[body.inputs[0]];
  for (const std::int32_t index : found) {
    if (index < 0) return std::nullopt;
    const GraphNode& node = body.nodes[index];
    if (!is(node, "Gather") || node.int_attribute("axis", 0) != 0 || node.inputs[0] == body.inputs[0]) {
      return std::nullopt;
    }
    const GraphValueId x = body.values[node.inputs[0]].captured;
    if (x == no_value || !iterates_over(graph, loop.inputs[0], x)) return std::nullopt;
    if (std::ranges::find(body.outputs, node.outputs[0]) != body.outputs.end()) return std::nullopt;
  }
  return found;
}

void rewrite(GraphNode& loop, Graph& body, const std::vector<std::int32_t>& slices_of_x) {
  loop.op_type = "Scan";
  loop.inputs.erase(loop.inputs.begin(), loop.inputs.begin() + 2);
  body.inputs.erase(body.inputs.begin(), body.inputs.begin() + 2);
  body.outputs.erase(body.outputs.begin());
  for (const std::int32_t index : slices_of_x) {
    GraphNode& gather = body.nodes[index];
    gather.removed = true;
    graph::GraphValue& slice = body.values[gather.outputs[0]];
    slice.producer = -1;
    slice.is_input = true;
    loop.inputs.push_back(body.values[gather.inputs[0]].captured);
    body.inputs.push_back(gather.outputs[0]);
  }
  loop.attributes.push_back({"num_scan_inputs", static_cast<std::int64_t>(slices_of_x.size())});
}

}  // namespace

std::size_t scans_of_loops(Graph& graph) {
  std::size_t changed = 0;
  for (GraphNode& node : graph.nodes) {
    if (!is(node, "Loop") || node.removed || node.inputs.size() < 2 || node.inputs[0] == no_value) continue;
    const graph::Attribute* attribute = node.find("body");
    if (attribute == nullptr) continue;
    Graph& body = *std::get<std::shared_ptr<Graph>>(attribute->value);
    if (!never_ends_early(graph, node, body)) continue;
    const auto slices_of_x = slices(graph, node, body);
    if (!slices_of_x || slices_of_x->empty()) continue;
    rewrite(node, body, *slices_of_x);
    ++changed;
  }
  return changed;
}

}  // namespace whence::simplify
