#include "annotator/comparison/written_out.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <onnx/onnx_pb.h>

#include "annotator/comparison/drafted_nodes.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/onnx_file/node_attributes.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "schema/element_count.h"

namespace whence::comparison {

using derivation::multiplies;

namespace {

using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

// The inputs of an attention that extends a cache. The outputs 1 and 2 are the cache with the new keys and values.
struct AttentionInputs {
  std::size_t past_key, past_value;
};

bool is(const OnnxNode& node, std::string_view op_type) {
  return node.op_type == op_type && node.domain == "com.microsoft";
}

std::optional<AttentionInputs> cache_of(const OnnxNode& node) {
  if (is(node, "GroupQueryAttention")) return AttentionInputs{3, 4};
  if (node.op_type == "Attention" && node.domain.empty()) return AttentionInputs{4, 5};
  return std::nullopt;
}

class Writer {
 public:
  explicit Writer(const OnnxSummary& model)
      : model_(model),
        draft_([this](std::string_view name) { return readers_.contains(name) || makers_.contains(name); }) {
    for (const OnnxNode& node : model.graph.nodes) {
      for (const std::string_view output : node.outputs) makers_.emplace(output, &node);
      for (const std::string_view input : node.inputs) ++readers_[input];
    }
    for (const auto& value : model.graph.inputs) inputs_.insert(value.name);
    for (const auto& value : model.graph.outputs) outputs_.insert(value.name);
    for (const auto& tensor : model.graph.initializers) tensors_.emplace(tensor.name, &tensor);
    for (const OnnxNode& node : model.graph.nodes) {
      if (node.op_type == "Constant" && !node.outputs.empty() && !node.tensors.empty())
        tensors_.emplace(node.outputs[0], &node.tensors.front());
    }
  }

  WrittenOut run() {
    WrittenOut written;
    std::vector<std::size_t> counts;  // of the nodes that replace each node; 0: the node stays
    for (const OnnxNode& node : model_.graph.nodes) {
      const std::size_t before = draft_.size();
      write(node);
      counts.push_back(draft_.size() - before);
      find_cache(node, written.caches);
    }
    written.angles = angles_;
    written.rotations = rotations_;
    if (!in_order(written.caches)) written.caches.clear();
    if (draft_.size() > 0 || !unread_.empty()) replace(counts, written);
    return written;
  }

 private:
  void replace(const std::vector<std::size_t>& counts, WrittenOut& written) {
    OnnxSummary model = model_;
    const OnnxSummary drafted = onnx_file::summary_of_bytes(model_.file, draft_.bytes(model_.ir_version));
    model.file = drafted.file;
    auto& nodes = model.graph.nodes;
    nodes.clear();
    auto next = drafted.graph.nodes.begin();
    std::size_t place = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const OnnxNode& node = model_.graph.nodes[i];
      std::size_t nested = 0;
      for (const OnnxGraph& body : node.subgraphs) nested += onnx_file::all_nodes(body).size();
      if (counts[i] > 0) {
        const auto end = next + static_cast<std::ptrdiff_t>(counts[i]);
        for (std::size_t j = 0; j < counts[i]; ++j) written.drafted.insert(written.nodes.size() + j);
        std::copy(next, end, std::back_inserter(nodes));
        next = end;
        written.nodes.insert(written.nodes.end(), counts[i], place);
      } else if (!lengths_.contains(&node)) {
        if (unread_.contains(&node)) written.unread.insert(written.nodes.size());
        nodes.push_back(node);
        for (std::size_t inner = 0; inner <= nested; ++inner) written.nodes.push_back(place + inner);
      }
      place += 1 + nested;
    }
    written.model = std::make_shared<const OnnxSummary>(std::move(model));
  }

  static std::string input(const OnnxNode& node, std::size_t slot) {
    return slot < node.inputs.size() ? std::string(node.inputs[slot]) : std::string();
  }
  static std::string output(const OnnxNode& node, std::size_t slot) {
    return slot < node.outputs.size() ? std::string(node.outputs[slot]) : std::string();
  }

  void write(const OnnxNode& node) {
    if (is(node, "SkipSimplifiedLayerNormalization") && !write_skip_norm(node, false)) unread_.insert(&node);
    if (is(node, "SkipLayerNormalization") && !write_skip_norm(node, true)) unread_.insert(&node);
    if (is(node, "GroupQueryAttention") && !write_group_query(node)) unread_.insert(&node);
    if (is(node, "RotaryEmbedding") || (node.op_type == "RotaryEmbedding" && node.domain.empty())) write_rotary(node);
  }

  // Returns true if a value is read, by a node or by who runs the model.
  bool is_read(const std::string& value) const {
    return !value.empty() && (readers_.contains(value) || outputs_.contains(value));
  }
  bool is_product(const std::string& value) const {
    const auto found = makers_.find(value);
    return found != makers_.end() && multiplies(found->second->op_type);
  }

  // Inputs: value, skip, weight, with a mean also the shift, bias. Outputs: the norm, mean and deviation, the sum
  // before it.
  bool write_skip_norm(const OnnxNode& node, bool has_mean) {
    constexpr std::size_t sum_output = 3;
    if (is_read(output(node, 1)) || is_read(output(node, 2))) return false;
    std::string value = input(node, 0), skip = input(node, 1);
    if (const std::string bias = input(node, has_mean ? 4 : 3); !bias.empty()) {
      // The bias of the product before it is added first.
      if (is_product(skip) && !is_product(value)) std::swap(value, skip);
      value = draft_.add("Add", {value, bias});
    }
    std::vector<std::string> inputs = {draft_.add("Add", {value, skip}, output(node, sum_output)), input(node, 2)};
    if (has_mean && !input(node, 3).empty()) inputs.push_back(input(node, 3));
    draft_.add(has_mean ? "LayerNormalization" : "SimplifiedLayerNormalization", inputs, output(node, 0), node.name);
    constexpr float default_epsilon = 1e-12F;
    draft_.set("epsilon", static_cast<float>(onnx_file::number_attribute(node, "epsilon").value_or(default_epsilon)));
    return true;
  }

  // Returns the columns of a table, perhaps after rows were chosen; 0 if they are unknown.
  std::int64_t columns_of(std::string_view table) const {
    if (const OnnxNode* const choice = maker(table, "Gather"); choice != nullptr && !choice->inputs.empty())
      table = choice->inputs[0];
    const auto tensor = tensors_.find(table);
    return tensor == tensors_.end() || tensor->second->dims.empty() ? 0 : tensor->second->dims.back();
  }

  void write_rotary(const OnnxNode& node) {
    const bool is_of_runtime = is(node, "RotaryEmbedding");
    const std::string positions = input(node, is_of_runtime ? 1 : 3);
    const std::size_t slot = is_of_runtime ? 2 : 1;
    std::string cosine = input(node, slot), sine = input(node, slot + 1);
    if (node.inputs.size() > slot + 1) angles_.insert({node.inputs[slot], node.inputs[slot + 1]});
    if (!positions.empty()) {
      cosine = draft_.add("Gather", {cosine, positions});
      sine = draft_.add("Gather", {sine, positions});
    }
    if (!node.outputs.empty()) {
      rotations_[node.outputs[0]] = {.heads = onnx_file::integer_attribute(node, "num_heads", 0),
                                     .rotated = onnx_file::integer_attribute(node, "rotary_embedding_dim", 0),
                                     .columns = columns_of(input(node, slot))};
    }
    const bool turns_neighbours = onnx_file::integer_attribute(node, "interleaved", 0) != 0;
    draft_.rotate(input(node, 0), cosine, sine, turns_neighbours, output(node, 0));
  }

  // Inputs: query, key, value, their caches, two lengths, tables of angles, positions.
  bool write_group_query(const OnnxNode& node) {
    constexpr std::size_t lengths = 5, total = 6, cosines = 7, positions_slot = 9, first_unknown = 10;
    for (std::size_t slot = first_unknown; slot < node.inputs.size(); ++slot) {
      if (!node.inputs[slot].empty()) return false;
    }
    const std::string positions_input = input(node, positions_slot);
    if (!positions_input.empty() && !inputs_.contains(positions_input)) return false;
    const bool rotates = onnx_file::integer_attribute(node, "do_rotary", 0) != 0;
    if (rotates && node.inputs.size() <= cosines + 1) return false;
    static const std::set<std::string_view> known = {
        "do_rotary", "kv_num_heads", "local_window_size", "num_heads", "rotary_interleaved", "scale", "smooth_softmax"};
    const bool is_plain =
        onnx_file::integer_attribute(node, "smooth_softmax", 0) <= 0 &&
        std::ranges::all_of(node.attributes, [&](const onnx_file::OnnxAttribute& attribute) {
          return known.contains(attribute.name) || onnx_file::number_attribute(node, attribute.name) == 0.0;
        });
    const auto mask = is_plain ? counted_mask(input(node, lengths), input(node, total)) : std::nullopt;
    if (!mask) return false;
    std::string query = input(node, 0), key = input(node, 1), value = input(node, 2);
    if (key.empty() && value.empty()) {
      query = draft_.add("Split", {query});
      // Its parts have other sizes, unless there are as many heads of keys.
      draft_.copy_attribute(node, "num_heads", "split");
      key = draft_.new_name(), value = draft_.new_name();
      draft_.add_output(key);
      draft_.add_output(value);
    }
    if (rotates) {
      std::string positions = input(node, positions_slot);
      if (positions.empty()) positions = draft_.add("Shape", {query});
      angles_.insert({node.inputs[cosines], node.inputs[cosines + 1]});
      const std::string cosine = draft_.add("Gather", {input(node, cosines), positions});
      const std::string sine = draft_.add("Gather", {input(node, cosines + 1), positions});
      const bool turns_neighbours = onnx_file::integer_attribute(node, "rotary_interleaved", 0) != 0;
      query = draft_.rotate(query, cosine, sine, turns_neighbours);
      key = draft_.rotate(key, cosine, sine, turns_neighbours);
    }
    draft_.add("Attention", {query, key, value, *mask, input(node, 3), input(node, 4)}, output(node, 0), node.name);
    draft_.add_output(output(node, 1));
    draft_.add_output(output(node, 2));
    draft_.copy_attribute(node, "scale", "scale");
    draft_.copy_attribute(node, "num_heads", "q_num_heads");
    draft_.copy_attribute(node, "kv_num_heads", "kv_num_heads");
    draft_.copy_attribute(node, "local_window_size", "local_window_size");
    draft_.set("is_causal", std::int64_t{1});
    return true;
  }

  // Returns the node before a conversion that made the value; null if there is none.
  const OnnxNode* maker(std::string_view value, std::string_view op_type) const {
    auto found = makers_.find(value);
    if (found != makers_.end() && found->second->op_type == "Cast" && !found->second->inputs.empty())
      found = makers_.find(found->second->inputs[0]);
    return found != makers_.end() && found->second->op_type == op_type ? found->second : nullptr;
  }

  bool is_number(std::string_view value, std::int64_t number) const {
    if (const OnnxNode* const constant = maker(value, "Constant"); constant != nullptr) {
      for (const onnx_file::OnnxAttribute& attribute : constant->attributes) {
        onnx::AttributeProto message;
        if (!message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size()))) continue;
        if (attribute.name == "value_int") return message.i() == number;
        if (attribute.name == "value_ints") return message.ints_size() == 1 && message.ints(0) == number;
      }
    }
    const auto found = tensors_.find(value);
    if (found == tensors_.end()) return false;
    onnx::TensorProto message;
    const auto& bytes = found->second->message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
    if (message.data_type() != onnx::TensorProto::INT64 || element_count(found->second->dims) != 1) return false;
    if (message.int64_data_size() == 1) return message.int64_data(0) == number;
    std::int64_t stored = 0;
    if (message.raw_data().size() != sizeof(stored)) return false;
    std::copy_n(message.raw_data().data(), sizeof(stored), reinterpret_cast<char*>(&stored));
    return stored == number;
  }

  // Returns the mask if `lengths` are its tokens less one, and `total` is its size: the only lengths with which the
  // operator reads all positions that the mask allows.
  std::optional<std::string> counted_mask(const std::string& lengths, const std::string& total) {
    const OnnxNode* const difference = maker(lengths, "Sub");
    if (difference == nullptr || difference->inputs.size() != 2 || !is_number(difference->inputs[1], 1))
      return std::nullopt;
    const OnnxNode* const sum = maker(difference->inputs[0], "ReduceSum");
    const OnnxNode* const size = maker(total, "Gather");
    const bool are_of_axis_1 = sum != nullptr && sum->inputs.size() == 2 && is_number(sum->inputs[1], 1) &&
                               size != nullptr && size->inputs.size() == 2 && is_number(size->inputs[1], 1);
    if (!are_of_axis_1) return std::nullopt;
    const std::string_view mask = sum->inputs[0];
    const OnnxNode* const sizes = maker(size->inputs[0], "Shape");
    if (!inputs_.contains(mask) || sizes == nullptr || sizes->inputs.size() != 1 || sizes->inputs[0] != mask ||
        !sizes->attributes.empty())
      return std::nullopt;
    lengths_.insert(difference);
    lengths_.insert(sum);
    return std::string(mask);
  }

  void find_cache(const OnnxNode& node, std::vector<CachePair>& found) const {
    const auto slots = cache_of(node);
    if (!slots) return;
    for (const auto& [slot, result] : {std::pair{slots->past_key, 1}, std::pair{slots->past_value, 2}}) {
      const auto at = static_cast<std::size_t>(result);
      if (slot >= node.inputs.size() || at >= node.outputs.size()) continue;
      const std::string_view past = node.inputs[slot], present = node.outputs[at];
      const auto readers = readers_.find(past);
      if (inputs_.contains(past) && outputs_.contains(present) && readers != readers_.end() && readers->second == 1)
        found.push_back({past, present});
    }
  }

  // A runtime hands each output over to the input at the same place of the next call.
  bool in_order(const std::vector<CachePair>& caches) const {
    std::vector<std::string_view> pasts, presents;
    for (const auto& value : model_.graph.inputs) {
      const auto found = std::ranges::find(caches, value.name, &CachePair::past);
      if (found != caches.end()) pasts.push_back(found->past);
    }
    for (const auto& value : model_.graph.outputs) {
      const auto found = std::ranges::find(caches, value.name, &CachePair::present);
      if (found != caches.end()) presents.push_back(found->past);
    }
    return pasts == presents;
  }

  const OnnxSummary& model_;
  DraftedNodes draft_;
  std::map<std::string_view, const OnnxNode*> makers_;
  std::map<std::string_view, int> readers_;
  std::map<std::string_view, const onnx_file::OnnxTensor*> tensors_;
  std::set<std::string_view> inputs_, outputs_;
  std::set<const OnnxNode*> lengths_, unread_;
  std::set<std::string_view> angles_;
  std::map<std::string_view, Rotation> rotations_;
};

}  // namespace

WrittenOut write_out(const OnnxSummary& model) { return Writer(model).run(); }

}  // namespace whence::comparison
