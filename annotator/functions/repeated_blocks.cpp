#include "annotator/functions/repeated_blocks.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "annotator/functions/node_values.h"
#include "schema/dtype.h"

namespace whence {
namespace {

constexpr int fewest_nodes = 3, longest_period = 2048;

// A table of floating numbers with two axes or more: what makes a layer a layer. Integer tables and vectors belong to
// masks and positions, too.
bool is_matrix(const onnx::TensorProto& tensor) {
  const auto wide = std::ranges::count_if(tensor.dims(), [](std::int64_t size) { return size > 1; });
  return wide >= 2 && is_floating(from_onnx(tensor.data_type()));
}

std::string form_of(const onnx::TensorProto& tensor) {
  std::string text = "w" + std::to_string(tensor.data_type()) + "[";
  for (const std::int64_t size : tensor.dims()) text += std::to_string(size) + ",";
  return text + "]";
}

// What a value is to a node that reads it.
class Values {
 public:
  explicit Values(const ModelParts& parts) {
    const onnx::GraphProto& graph = parts.model.graph();
    for (int i = 0; i < graph.node_size(); ++i) add(graph.node(i), i);
    for (const onnx::ValueInfoProto& input : graph.input()) inputs_.insert(input.name());
    for (const StoredTensor& tensor : parts.initializers) {
      if (is_matrix(tensor.header)) matrices_.insert(tensor.header.name());
      forms_.emplace(tensor.header.name(), form_of(tensor.header));
    }
  }

  // -1 when no node makes it, or a Constant does: those belong to whoever reads them.
  int producer(std::string_view name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? -1 : found->second;
  }

  bool matrix(std::string_view name) const { return matrices_.contains(name); }

  // Weights by their dtype and shape, for blocks of weights of other shapes are not equal.
  std::string kind(const std::string& name) const {
    if (name.empty()) return "-";
    // What the first block reads comes from outside.
    if (producer(name) >= 0 || inputs_.contains(name)) return "n";
    const auto form = forms_.find(name);
    return form == forms_.end() ? "w" : form->second;
  }

 private:
  void add(const onnx::NodeProto& node, int index) {
    const bool constant = node.op_type() == "Constant";
    for (const std::string& output : node.output()) {
      if (!output.empty() && !constant) producers_.emplace(output, index);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!constant || !attribute.has_t()) continue;
      if (is_matrix(attribute.t())) matrices_.insert(node.output(0));
      forms_.emplace(node.output(0), form_of(attribute.t()));
    }
  }

  std::unordered_map<std::string_view, int> producers_;
  std::unordered_set<std::string_view> inputs_, matrices_;
  std::unordered_map<std::string_view, std::string> forms_;  // of weights and constants: "w1[3,4]"
};

// Nodes in the order in which the outputs need them: each after what it reads, its first input first.
std::vector<int> order_of_need(const onnx::GraphProto& graph, const Values& values) {
  struct Step {
    int node;
    std::vector<std::string> reads;
    std::size_t next = 0;
  };
  std::vector<int> order;
  std::vector<bool> seen(graph.node_size(), false);
  std::vector<Step> stack;
  const auto enter = [&](std::string_view value) {
    const int node = values.producer(value);
    if (node < 0 || seen[node]) return;
    seen[node] = true;
    stack.push_back({node, values_read(graph.node(node))});
  };
  for (const onnx::ValueInfoProto& output : graph.output()) {
    enter(output.name());
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next < step.reads.size()) {
        const std::string value = step.reads[step.next++];
        enter(value);
        continue;
      }
      order.push_back(step.node);
      stack.pop_back();
    }
  }
  return order;
}

// The same, but masks, positions and sizes, which need no weights, before all else: the first layer is the first to
// need them, and would be unlike the others.
std::vector<int> order_of_layers(const onnx::GraphProto& graph, const Values& values) {
  std::vector<int> order = order_of_need(graph, values);
  std::vector<bool> weighs(graph.node_size(), false);
  for (const int node : order) {
    for (const std::string& read : values_read(graph.node(node))) {
      const int producer = values.producer(read);
      if (values.matrix(read) || (producer >= 0 && weighs[producer])) weighs[node] = true;
    }
  }
  std::ranges::stable_partition(order, [&](int node) { return !weighs[node]; });
  return order;
}

// Equal for nodes that compute the same of inputs of the same kind.
std::string described(const onnx::NodeProto& node, const Values& values) {
  std::string text = node.domain() + "." + node.op_type() + "(";
  for (const std::string& input : node.input()) text += values.kind(input);
  text += ")" + std::to_string(node.output_size());
  std::vector<std::string> attributes;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const bool body = attribute.has_g() || attribute.graphs_size() > 0;  // blocks compare these in full
    attributes.push_back(body ? attribute.name() : attribute.SerializeAsString());
  }
  std::ranges::sort(attributes);
  for (const std::string& attribute : attributes) text += attribute;
  return text;
}

// A run of `order` that consists of `count` equal parts of `period` nodes, with some more that continue it.
struct Run {
  int start = 0, period = 0, count = 0;
  int slack = 0;  // how far the parts may be moved without losing one

  int end() const { return start + period * count; }
  std::int64_t saved() const { return count < 2 ? 0 : static_cast<std::int64_t>(count - 1) * (period - 1); }
};

class Finder {
 public:
  explicit Finder(const ModelParts& parts) : values_(parts), order_(order_of_layers(parts.model.graph(), values_)) {
    const onnx::GraphProto& graph = parts.model.graph();
    std::unordered_map<std::string, int> numbers;
    for (const int node : order_) {
      const auto [entry, is_new] = numbers.try_emplace(described(graph.node(node), values_), numbers.size());
      tokens_.push_back(entry->second);
    }
    count_crossings(graph);
  }

  std::vector<RepeatedBlock> find() {
    std::vector<Run> runs = runs_in(0, static_cast<int>(order_.size()), longest_period, true);
    std::ranges::sort(runs, {}, &Run::start);
    std::vector<RepeatedBlock> blocks;
    for (std::size_t family = 0; family < runs.size(); ++family) {
      const Run& run = runs[family];
      for (int k = 0; k < run.count; ++k) {
        const auto begin = order_.begin() + run.start + static_cast<std::ptrdiff_t>(k) * run.period;
        blocks.push_back({static_cast<int>(family), k, {begin, begin + run.period}});
      }
    }
    return blocks;
  }

 private:
  // crossings_[i]: values made before the i-th node and still read from there on.
  void count_crossings(const onnx::GraphProto& graph) {
    std::vector<int> place(graph.node_size(), -1), last(graph.node_size(), -1);
    for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const std::string& value : values_read(graph.node(order_[i]))) {
        const int producer = values_.producer(value);
        if (producer >= 0) last[producer] = static_cast<int>(i);
      }
    }
    crossings_.assign(order_.size() + 2, 0);
    for (const int node : order_) {
      if (last[node] < 0) continue;
      ++crossings_[place[node] + 1];
      --crossings_[last[node] + 1];
    }
    for (std::size_t i = 1; i < crossings_.size(); ++i) crossings_[i] += crossings_[i - 1];
  }

  // Those that save the most first. `by_parts`: but not where runs of smaller periods within them save more together,
  // for two stages of a network may be alike, and each of them be made of many equal layers.
  std::vector<Run> runs_in(int from, int to, int longest, bool by_parts) const {
    if (to - from < 2 * fewest_nodes) return {};
    Run best;
    for (int period = fewest_nodes; period <= std::min(longest, (to - from) / 2); ++period) {
      longest_with(from, to, period, best);
    }
    if (best.saved() == 0) return {};
    if (by_parts) {
      std::int64_t saved = 0;
      for (const Run& run : runs_in(best.start, best.end(), best.period - 1, false)) saved += run.saved();
      if (saved > best.saved()) return runs_in(from, to, best.period - 1, true);
    }
    move_to_narrowest(best);
    std::vector<Run> runs{best};
    std::ranges::move(runs_in(from, best.start, longest, by_parts), std::back_inserter(runs));
    std::ranges::move(runs_in(best.end(), to, longest, by_parts), std::back_inserter(runs));
    return runs;
  }

  void longest_with(int from, int to, int period, Run& best) const {
    for (int i = from; i + period < to;) {
      int end = i;
      while (end + period < to && tokens_[end] == tokens_[end + period]) ++end;
      const int length = end - i;
      const Run run{i, period, length / period + 1, length % period};
      if (run.saved() > best.saved()) best = run;
      i = end + 1;
    }
  }

  // Where a block begins is open: of all beginnings those where the fewest values cross between two blocks, even at the
  // price of one block when more than two are left.
  void move_to_narrowest(Run& run) const {
    const auto narrowest = [&](int range) {
      int at = run.start;
      for (int start = run.start; start <= run.start + range; ++start) {
        if (crossings_[start + run.period] < crossings_[at + run.period]) at = start;
      }
      return at;
    };
    const int kept = narrowest(run.slack), moved = narrowest(run.period - 1);
    if (run.count > 2 && moved - run.start > run.slack &&
        crossings_[moved + run.period] < crossings_[kept + run.period]) {
      run.start = moved;
      --run.count;
    } else {
      run.start = kept;
    }
  }

  Values values_;
  std::vector<int> order_;   // nodes
  std::vector<int> tokens_;  // by place in order_
  std::vector<int> crossings_;
};

}  // namespace

std::vector<RepeatedBlock> repeated_blocks(const ModelParts& parts) { return Finder(parts).find(); }

}  // namespace whence
