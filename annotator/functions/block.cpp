#include "annotator/functions/block.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include <xxhash.h>

#include "annotator/functions/node_values.h"
#include "annotator/functions/plain_node.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_out.h"
#include "schema/element_count.h"

namespace whence::functions {

namespace proto = onnx_file::proto;
using onnx_file::OnnxNode;
using onnx_file::OnnxTensor;

namespace {

std::uint64_t hash(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[] = {a, b};
  return XXH3_64bits(both, sizeof both);
}

bool is_discrete(int data_type) {
  return data_type == onnx::TensorProto::INT64 || data_type == onnx::TensorProto::INT32 ||
         data_type == onnx::TensorProto::BOOL || data_type == onnx::TensorProto::STRING;
}

// A Resize has up to eight scales; a larger tensor is a weight.
constexpr std::int64_t max_scalar_elements = 8;

void clear_names(onnx::NodeProto& node) {
  node.clear_name(), node.clear_doc_string(), node.clear_metadata_props();
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    attribute.clear_doc_string();
    if (attribute.has_t()) attribute.mutable_t()->clear_name(), attribute.mutable_t()->clear_doc_string();
  }
  for_each_body(node, [](onnx::GraphProto& body) {
    body.clear_name(), body.clear_doc_string(), body.clear_metadata_props(), body.clear_value_info();
    for (onnx::NodeProto& inner : *body.mutable_node()) clear_names(inner);
  });
  std::ranges::sort(*node.mutable_attribute(), {}, [](const onnx::AttributeProto& each) { return each.name(); });
}

class BlockMaker {
 public:
  BlockMaker(const WorkGraph& graph, const Region& region) : graph_(graph), region_(region) {
    block_.instance = region.instance;
    for (std::size_t i = 0; i < region.nodes.size(); ++i) local_[region.nodes[i]] = i;
  }

  ModuleBlock make() {
    set_labels();
    set_order();
    set_key();
    set_outputs();
    return std::move(block_);
  }

 private:
  const WorkNode& node(std::size_t local) const { return graph_.nodes()[region_.nodes[local]]; }

  // Returns the local number of the node that produces a value; nullopt for values from outside the region.
  std::optional<std::size_t> local_producer(ValueId id) const {
    const auto found = local_.find(graph_.value(id).producer);
    return found == local_.end() ? std::nullopt : std::optional(found->second);
  }

  bool is_parameter(ValueId id) const {
    const WorkValue& value = graph_.value(id);
    const std::size_t dot = value.name.rfind('.');
    return value.initializer >= 0 && dot != std::string::npos &&
           graph_.instances().is_module(std::string_view(value.name).substr(0, dot));
  }

  const OnnxTensor* small_constant(ValueId id) const {
    const OnnxTensor* tensor = is_parameter(id) ? nullptr : graph_.constant(id);
    if (tensor == nullptr) return nullptr;
    return is_discrete(tensor->data_type) || element_count(tensor->dims) <= max_scalar_elements ? tensor : nullptr;
  }

  static std::size_t output_index(const WorkNode& node, ValueId id) {
    return std::ranges::find(node.writes, id) - node.writes.begin();
  }

  // Labels each node by its operator, its inputs and the nodes that read its results, within the region. The labels do
  // not depend on the order of the nodes in the file.
  void set_labels() {
    std::vector<std::uint64_t> forward;
    for (std::size_t i = 0; i < region_.nodes.size(); ++i) {
      std::uint64_t label = hash(normal_form(*node(i).node, [&](const std::string& name) {
        const ValueId id = graph_.find(name);
        if (const auto producer = local_producer(id)) {
          if (*producer >= forward.size()) return std::string("own");  // an output of this node
          return std::to_string(forward[*producer]) + "." + std::to_string(output_index(node(*producer), id));
        }
        if (const OnnxTensor* tensor = small_constant(id)) {
          if (!is_discrete(tensor->data_type)) return std::string("scalar");
          const std::string content = content_of(*tensor);
          return digest_of(content.data(), content.size());
        }
        return std::string(graph_.value(id).initializer >= 0 ? "weight" : "input");
      }));
      forward.push_back(label);
    }
    labels_ = forward;
    for (std::size_t i = region_.nodes.size(); i-- > 0;) {
      std::vector<std::uint64_t> readers;
      for (const ValueId id : node(i).writes) {
        if (id < 0) continue;
        for (const std::int32_t reader : graph_.value(id).readers) {
          const auto found = local_.find(reader);
          if (found == local_.end()) continue;
          const auto& inputs = node(found->second).node->inputs;
          const auto slot = std::find(inputs.begin(), inputs.end(), graph_.value(id).name) - inputs.begin();
          readers.push_back(mix(labels_[found->second], static_cast<std::uint64_t>(slot)));
        }
      }
      std::ranges::sort(readers);
      for (const std::uint64_t reader : readers) labels_[i] = mix(labels_[i], reader);
    }
  }

  // Sets a topological order. Among nodes that are ready, the smallest label comes first, then the first in the file.
  void set_order() {
    std::vector<std::size_t> missing_inputs(region_.nodes.size(), 0);
    const auto comes_later = [&](std::size_t a, std::size_t b) {
      return std::pair(labels_[a], a) > std::pair(labels_[b], b);
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(comes_later)> ready(comes_later);
    for (std::size_t i = 0; i < missing_inputs.size(); ++i) {
      for (const ValueId id : node(i).reads) missing_inputs[i] += local_producer(id) ? 1 : 0;
      if (missing_inputs[i] == 0) ready.push(i);
    }
    position_.resize(missing_inputs.size());
    while (!ready.empty()) {
      const std::size_t next = ready.top();
      ready.pop();
      position_[next] = block_.nodes.size();
      block_.nodes.push_back(region_.nodes[next]);
      for (const ValueId id : node(next).writes) {
        if (id < 0) continue;
        for (const std::int32_t reader : graph_.value(id).readers) {
          const auto found = local_.find(reader);
          if (found != local_.end() && --missing_inputs[found->second] == 0) ready.push(found->second);
        }
      }
    }
  }

  void set_key() {
    std::string text;
    for (const std::int32_t index : block_.nodes) {
      const std::string form =
          normal_form(*graph_.nodes()[index].node, [&](const std::string& name) { return token(graph_.find(name)); });
      text += std::to_string(form.size()) + ":" + form;
    }
    const XXH128_hash_t digest = XXH3_128bits(text.data(), text.size());
    block_.key = std::to_string(digest.high64) + "-" + std::to_string(digest.low64);
  }

  std::string token(ValueId id) {
    if (const auto producer = local_producer(id)) {
      return "n" + std::to_string(position_[*producer]) + "." + std::to_string(output_index(node(*producer), id));
    }
    if (const auto cached = tokens_.find(id); cached != tokens_.end()) return cached->second;
    return tokens_[id] = outer_token(id);
  }

  std::string outer_token(ValueId id) {
    const OnnxTensor* tensor = small_constant(id);
    if (tensor == nullptr) {
      block_.inputs.push_back(id);
      return "i" + std::to_string(block_.inputs.size() - 1);
    }
    const std::string content = content_of(*tensor);
    if (is_discrete(tensor->data_type)) {
      if (seen_constants_.try_emplace(content, id).second) block_.constants.push_back(id);
      return "c" + digest_of(content.data(), content.size());
    }
    const auto seen = std::ranges::find(block_.scalar_contents, content);
    if (seen != block_.scalar_contents.end()) return "s" + std::to_string(seen - block_.scalar_contents.begin());
    block_.scalars.push_back(id);
    block_.scalar_contents.push_back(content);
    return "s" + std::to_string(block_.scalars.size() - 1);
  }

  void set_outputs() {
    for (std::size_t position = 0; position < block_.nodes.size(); ++position) {
      const WorkNode& producer = graph_.nodes()[block_.nodes[position]];
      for (std::size_t k = 0; k < producer.writes.size(); ++k) {
        if (producer.writes[k] < 0) continue;
        const auto inside = [&](std::int32_t reader) { return local_.contains(reader); };
        if (!graph_.needed_outside(producer.writes[k], inside)) continue;
        block_.outputs.push_back({static_cast<std::int32_t>(position), static_cast<std::int32_t>(k)});
      }
    }
  }

  const WorkGraph& graph_;
  const Region& region_;
  ModuleBlock block_;
  std::unordered_map<std::int32_t, std::size_t> local_;
  std::vector<std::uint64_t> labels_;
  std::vector<std::size_t> position_;
  std::unordered_map<ValueId, std::string> tokens_;
  std::map<std::string, ValueId> seen_constants_;
};

}  // namespace

ModuleBlock block_of(const WorkGraph& graph, const Region& region) { return BlockMaker(graph, region).make(); }

namespace {

// Returns the bytes that protobuf would write for the message, in protobuf's field order.
std::string normal_form(PlainNode node, const std::function<std::string(const std::string&)>& rename) {
  std::string form;
  const auto append_values = [&](std::uint32_t field, const std::vector<std::string_view>& names) {
    for (const std::string_view name : names) {
      onnx_file::wire::append_field(form, field, name.empty() ? std::string() : rename(std::string(name)));
    }
  };
  append_values(proto::node::input, node.inputs);
  append_values(proto::node::output, node.outputs);
  form += node.op_type;
  std::ranges::stable_sort(node.attributes, {}, &PlainAttribute::name);
  for (const PlainAttribute& attribute : node.attributes) {
    onnx_file::wire::append_field(form, proto::node::attribute, attribute.message);
  }
  return form.append(node.domain).append(node.overload);
}

}  // namespace

std::string normal_form(const OnnxNode& node, const std::function<std::string(const std::string&)>& rename) {
  if (auto plain = read_plain_node(node.read())) return normal_form(std::move(*plain), rename);
  onnx::NodeProto normal = bare_proto(node);
  rename_values(normal, rename);
  std::map<std::string, std::string> inner;
  rename_inner_values(normal, [&](const std::string& name) {
    return inner.try_emplace(name, "b" + std::to_string(inner.size())).first->second;
  });
  clear_names(normal);
  return normal.SerializeAsString();
}

std::string content_of(onnx::TensorProto tensor) {
  tensor.clear_name(), tensor.clear_doc_string(), tensor.clear_metadata_props();
  return tensor.SerializeAsString();
}
std::string content_of(const OnnxTensor& tensor) { return content_of(proto_of(tensor)); }

}  // namespace whence::functions
