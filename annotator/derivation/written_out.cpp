#include "annotator/derivation/written_out.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/node_attributes.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "schema/element_count.h"

namespace whence::derivation {
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
  explicit Writer(const OnnxSummary& model) : model_(model) {
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
      const int before = draft_.graph().node_size();
      write(node);
      counts.push_back(static_cast<std::size_t>(draft_.graph().node_size() - before));
      find_cache(node, written.caches);
    }
    written.angles = angles_;
    if (!in_order(written.caches)) written.caches.clear();
    if (draft_.graph().node_size() > 0 || !unread_.empty()) replace(counts, written);
    return written;
  }

 private:
  void replace(const std::vector<std::size_t>& counts, WrittenOut& written) {
    draft_.set_ir_version(model_.ir_version);
    draft_.mutable_graph()->set_name("written out");
    OnnxSummary model = model_;
    const OnnxSummary drafted = onnx_file::summary_of_bytes(model_.file, draft_.SerializeAsString());
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

  // Adds a node of the draft and returns its first output.
  std::string add(std::string_view op_type, const std::vector<std::string>& inputs, std::string output = "",
                  std::string_view name = "") {
    onnx::NodeProto& node = *draft_.mutable_graph()->add_node();
    node.set_op_type(std::string(op_type));
    node.set_name(std::string(name));
    for (const std::string& input : inputs) node.add_input(input);
    if (output.empty()) output = new_name();
    node.add_output(output);
    return output;
  }
  onnx::NodeProto& last() { return *draft_.mutable_graph()->mutable_node(draft_.graph().node_size() - 1); }
  std::string new_name() {
    std::string name;
    do {
      name = "written out " + std::to_string(++names_);
    } while (readers_.contains(name) || makers_.contains(name));
    return name;
  }

  // Copies an attribute of the fused node to the last node.
  void copy_attribute(const OnnxNode& from, std::string_view name, std::string_view as) {
    for (const onnx_file::OnnxAttribute& attribute : from.attributes) {
      if (attribute.name != name) continue;
      onnx::AttributeProto& copy = *last().add_attribute();
      copy.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size()));
      copy.set_name(std::string(as));
    }
  }
  void set_integer(std::string_view name, std::int64_t number) {
    onnx::AttributeProto& attribute = *last().add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(number);
  }
  static std::string input(const OnnxNode& node, std::size_t slot) {
    return slot < node.inputs.size() ? std::string(node.inputs[slot]) : std::string();
  }
  static std::string output(const OnnxNode& node, std::size_t slot) {
    return slot < node.outputs.size() ? std::string(node.outputs[slot]) : std::string();
  }

  void write(const OnnxNode& node) {
    if (is(node, "SkipSimplifiedLayerNormalization")) write_skip_norm(node);
    if (is(node, "GroupQueryAttention") && !write_group_query(node)) unread_.insert(&node);
    if (is(node, "RotaryEmbedding") || (node.op_type == "RotaryEmbedding" && node.domain.empty())) write_rotary(node);
  }

  // Outputs 0 and 3: the norm, and the sum before it.
  void write_skip_norm(const OnnxNode& node) {
    constexpr std::size_t bias = 3, sum_output = 3;
    std::string sum = output(node, sum_output);
    const std::string addend = input(node, bias);
    if (!addend.empty()) {
      sum = add("Add", {add("Add", {input(node, 0), input(node, 1)}), addend}, sum);
    } else {
      sum = add("Add", {input(node, 0), input(node, 1)}, sum);
    }
    add("SimplifiedLayerNormalization", {sum, input(node, 2)}, output(node, 0), node.name);
    copy_attribute(node, "epsilon", "epsilon");
  }

  // Writes the rotation of pairs of elements that are half a head apart, as transformers does.
  std::string rotate(const std::string& value, const std::string& cosine, const std::string& sine,
                     const std::string& result = "") {
    const std::string first = add("Split", {value});
    const std::string second = new_name();
    last().add_output(second);
    const std::string turned = add("Concat", {add("Neg", {second}), first});
    return add("Add", {add("Mul", {value, cosine}), add("Mul", {turned, sine})}, result);
  }

  void write_rotary(const OnnxNode& node) {
    const bool is_of_runtime = is(node, "RotaryEmbedding");
    if (onnx_file::integer_attribute(node, "interleaved", 0) != 0) return;
    const std::string positions = input(node, is_of_runtime ? 1 : 3);
    const std::size_t slot = is_of_runtime ? 2 : 1;
    std::string cosine = input(node, slot), sine = input(node, slot + 1);
    if (node.inputs.size() > slot + 1) angles_.insert({node.inputs[slot], node.inputs[slot + 1]});
    if (!positions.empty()) {
      cosine = add("Gather", {cosine, positions});
      sine = add("Gather", {sine, positions});
    }
    rotate(input(node, 0), cosine, sine, output(node, 0));
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
    const bool is_plain = onnx_file::integer_attribute(node, "rotary_interleaved", 0) == 0 &&
                          onnx_file::integer_attribute(node, "local_window_size", -1) == -1 &&
                          onnx_file::integer_attribute(node, "smooth_softmax", 0) <= 0 &&
                          onnx_file::number_attribute(node, "softcap").value_or(0) == 0;
    const auto mask = is_plain ? counted_mask(input(node, lengths), input(node, total)) : std::nullopt;
    if (!mask) return false;
    std::string query = input(node, 0), key = input(node, 1), value = input(node, 2);
    if (key.empty() && value.empty()) {
      query = add("Split", {query});
      key = new_name(), value = new_name();
      last().add_output(key);
      last().add_output(value);
    }
    if (rotates) {
      std::string positions = input(node, positions_slot);
      if (positions.empty()) positions = add("Shape", {query});
      angles_.insert({node.inputs[cosines], node.inputs[cosines + 1]});
      const std::string cosine = add("Gather", {input(node, cosines), positions});
      const std::string sine = add("Gather", {input(node, cosines + 1), positions});
      query = rotate(query, cosine, sine);
      key = rotate(key, cosine, sine);
    }
    add("Attention", {query, key, value, *mask, input(node, 3), input(node, 4)}, output(node, 0), node.name);
    last().add_output(output(node, 1));
    last().add_output(output(node, 2));
    copy_attribute(node, "scale", "scale");
    copy_attribute(node, "num_heads", "q_num_heads");
    copy_attribute(node, "kv_num_heads", "kv_num_heads");
    set_integer("is_causal", 1);
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
    if (const OnnxNode* const constant = maker(value, "Constant");
        constant != nullptr && onnx_file::integer_attribute(*constant, "value_int", 0) == number)
      return true;
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
  onnx::ModelProto draft_;
  int names_ = 0;
  std::map<std::string_view, const OnnxNode*> makers_;
  std::map<std::string_view, int> readers_;
  std::map<std::string_view, const onnx_file::OnnxTensor*> tensors_;
  std::set<std::string_view> inputs_, outputs_;
  std::set<const OnnxNode*> lengths_, unread_;
  std::set<std::string_view> angles_;
};

}  // namespace

WrittenOut write_out(const OnnxSummary& model) { return Writer(model).run(); }

}  // namespace whence::derivation
