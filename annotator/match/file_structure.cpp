// Makes the Structure of an ONNX file. Field numbers: onnx/onnx.proto of ONNX 1.20.
#include "annotator/match/file_structure.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_set>

#include "annotator/match/attribute_digest.h"
#include "annotator/match/quantized_operands.h"
#include "annotator/onnx_file/called_functions.h"
#include "annotator/onnx_file/release_part.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/confidence.h"
#include "annotator/program/tensor_values.h"
#include "schema/dtype.h"
#include "schema/flat_map.h"

namespace whence::match {

using onnx_file::OnnxFunction;
using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;
using onnx_file::OnnxTensor;
using onnx_file::OnnxValue;
namespace wire = onnx_file::wire;

namespace {

using wire::Field;
using wire::FieldReader;

constexpr std::size_t max_nodes = 4'000'000;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // a fuzzer would spend its time on files that expand
constexpr std::size_t max_calls = 2'000;
#else
constexpr std::size_t max_calls = 500'000;
#endif
constexpr int max_call_depth = 64;
constexpr std::uint64_t max_number_size = 16;  // bytes of one element

void collect(const std::vector<OnnxNode>& nodes, std::vector<const OnnxNode*>& into) {
  for (const OnnxNode& node : nodes) {
    into.push_back(&node);
    for (const OnnxGraph& body : node.subgraphs) collect(body.nodes, into);
  }
}

template <Side S>
class Builder {
  using Value = ValueIndex<S>;

 public:
  explicit Builder(const OnnxSummary& model)
      : model_(model), functions_(model.functions), place_{.file = model.file->path(), .stage = "match"} {
    result_.external = std::make_shared<onnx_file::ExternalBytes>(model.file->path());
    result_.file_nodes.items() = nodes_with_functions(model);
    sources_.reserve(result_.file_nodes.size());
    for (const FileNodeIndex i : result_.file_nodes.keys()) sources_.emplace(result_.file_nodes[i], i);
    result_.callee_nodes.assign(result_.file_nodes.size(), {});
    std::size_t values = model.graph.inputs.size() + model.graph.initializers.size();
    for (const OnnxNode* node : result_.file_nodes) values += node->outputs.size();
    s().values.items().reserve(values);
    s().nodes.items().reserve(result_.file_nodes.size());
  }

  FileStructure<S> build() {
    Names names;
    const OnnxGraph& graph = model_.graph;
    names.own.reserve(s().values.items().capacity());
    add_initializers(graph, names);
    for (const OnnxValue& input : graph.inputs) {
      // Before IR version 4 every initializer was an input as well.
      if (input.name.empty() || names.own.count(input.name) != 0) continue;
      s().inputs.push_back(declare(names, input.name));
    }
    add_nodes(graph.nodes, names, 0);
    for (const OnnxValue& output : graph.outputs) {
      const Value value = resolve(names, output.name);
      if (!value.exists()) continue;  // the file is invalid, which `whence validate` reports
      s().values[value].uses.push_back({{}, static_cast<std::int32_t>(s().outputs.size())});
      s().outputs.push_back(value);
    }
    s().finish(model_.file->path());
    return std::move(result_);
  }

 private:
  // The names that a graph or function declares. A body also sees the names of the enclosing graphs.
  struct Names {
    FlatMap<std::string_view, Value> own;
    Names* outer = nullptr;
  };

  Structure<S>& s() { return result_.structure; }

  Value declare(Names& names, std::string_view name) {
    if (name.empty()) return {};
    const auto [entry, first] = names.own.try_emplace(name);
    if (first) entry.value() = s().add_value(name);
    return entry->second;
  }

  // Treats a value that no node computes as an input: the file is invalid, which `whence validate` reports.
  Value resolve(Names& names, std::string_view name) {
    if (name.empty()) return {};
    for (Names* at = &names; at != nullptr; at = at->outer) {
      if (const auto found = at->own.find(name); found != at->own.end()) return found->second;
    }
    return declare(names, name);
  }

  void add_initializers(const OnnxGraph& graph, Names& names) {
    for (const OnnxTensor& tensor : graph.initializers) add_tensor(tensor, declare(names, tensor.name), tensor.name);
  }

  void add_tensor(const OnnxTensor& tensor, Value value, std::string_view name) {
    if (!value.exists() || s().values[value].tensor.exists()) return;
    StructureTensor entry;
    entry.name = name;
    entry.data_type = tensor.data_type;
    entry.dims = tensor.dims;
    entry.bytes = tensor.external ? result_.external->of(tensor) : tensor.raw;
    if (entry.elements() == 1) read_number(tensor, entry);
    if (entry.bytes.empty()) entry.bytes = packed_floats(tensor);
    s().values[value].tensor = s().tensors.add(std::move(entry));
  }

  // Returns the values in the typed field of a float tensor, which have the layout of raw data if they are one packed
  // field.
  std::string_view packed_floats(const OnnxTensor& tensor) const {
    constexpr std::uint32_t float_data = 4;
    constexpr int float32 = 1;
    if (tensor.data_type != float32) return {};
    std::string_view found;
    for (FieldReader reader(tensor.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(float_data)) found = field.bytes;
    }
    return found;
  }

  void read_number(const OnnxTensor& tensor, StructureTensor& entry) const {
    const DType dtype = from_onnx(tensor.data_type);
    if (!program::has_number_form(dtype) || tensor.external) return;
    if (tensor.raw.size() == size_of(dtype) && tensor.raw.size() <= max_number_size) {
      entry.number = program::single_number({dtype, {}, Bytes::copy_of(tensor.raw.data(), tensor.raw.size())}).value();
      entry.single = true;
      return;
    }
    for (FieldReader reader(tensor.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.type == wire::WireType::bytes && field.bytes.empty()) continue;
      if (field.number == 4 || field.number == 10) {  // float_data, double_data
        const std::size_t size = field.number == 4 ? sizeof(float) : sizeof(double);
        std::uint64_t bits = field.value;
        if (field.type == wire::WireType::bytes && field.bytes.size() >= size) {
          std::memcpy(&bits, field.bytes.data(), size);
        }
        entry.number = field.number == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                                         : std::bit_cast<double>(bits);
        entry.single = true;
      } else if (field.number == 5 || field.number == 7 || field.number == 11) {  // int32_data, int64_data, uint64_data
        std::uint64_t bits = field.value;
        if (field.type == wire::WireType::bytes) bits = FieldReader(field.bytes, place_).varint();
        entry.number = static_cast<double>(static_cast<std::int64_t>(bits));
        entry.single = true;
      }
    }
  }

  void add_nodes(const std::vector<OnnxNode>& nodes, Names& names, int depth) {
    // Declares the results first: the nodes may be out of order.
    for (const OnnxNode& node : nodes) {
      for (const std::string_view output : node.outputs) declare(names, output);
    }
    for (const OnnxNode& node : nodes) {
      add_node(node, names, depth);
    }
  }

  void add_node(const OnnxNode& node, Names& names, int depth) {
    if (s().nodes.size() > max_nodes) {
      throw Error(Code::over_limit, "local functions expand to more than " + std::to_string(max_nodes) + " nodes",
                  "inline the functions of the model", place_);
    }
    if (const OnnxFunction* function = functions_.called_by(node)) return add_call(node, *function, names, depth);
    StructureNode<S> entry;
    entry.op_type = node.op_type;
    entry.domain = node.domain;
    entry.name = node.name;
    entry.source = sources_.at(&node);
    add_inputs(node, entry, names);
    for (const std::string_view output : node.outputs) entry.outputs.push_back(resolve(names, output));
    entry.attributes = digest_attributes(node, entry.padding);
    entry.states_activation =
        origin::is_of_runtime(node.domain) &&
        std::ranges::any_of(node.attributes, [&](auto& each) { return each.name == "activation" && is_text(each); });
    entry.scales = origin::is_of_runtime(node.domain) && std::ranges::any_of(node.attributes, [&](auto& each) {
                     return each.name == "alpha" && is_not_one(each);
                   });
    entry.transposes =
        origin::is_of_runtime(node.domain) && operators::has(node.op_type, operators::reorders) &&
        std::ranges::any_of(node.attributes, [&](auto& each) { return each.name == "channels_last" && is_set(each); });
    entry.transposes_operand = std::ranges::any_of(
        node.attributes, [&](auto& each) { return (each.name == "transA" || each.name == "transB") && is_set(each); });
    if (node.op_type == "Constant" && !node.outputs.empty()) add_constant(node, entry.outputs.front());
    for (const OnnxGraph& body : node.subgraphs) add_body(body, node, entry, names, depth);
    s().add_node(std::move(entry));
  }

  // Scales and zero points are no operands: an operator on quantised values has the inputs of the plain operator.
  void add_inputs(const OnnxNode& node, StructureNode<S>& entry, Names& names) {
    const auto operands = quantized_operands(node.op_type, node.inputs.size());
    if (operands.empty()) {
      for (const std::string_view input : node.inputs) entry.inputs.push_back(resolve(names, input));
    }
    for (const QuantizedOperand& operand : operands) {
      entry.inputs.push_back(resolve(names, node.inputs[operand.value]));
      if (operand.scale == QuantizedOperand::none) continue;
      const Value scale = resolve(names, node.inputs[operand.scale]), zero = resolve(names, node.inputs[operand.zero]);
      dequantize_number(entry.inputs[entry.inputs.size() - 1], scale, zero);
    }
  }

  StructureTensor* single_number(Value value) {
    const auto tensor = value.exists() ? s().values[value].tensor : TensorIndex<S>();
    return tensor.exists() && s().tensors[tensor].single ? &s().tensors[tensor] : nullptr;
  }

  // Replaces the integer of a quantised constant by the number that it stands for, once.
  void dequantize_number(Value value, Value scale, Value zero) {
    StructureTensor *stored = single_number(value), *factor = single_number(scale), *offset = single_number(zero);
    if (stored == nullptr || factor == nullptr || offset == nullptr) return;
    if (!dequantized_.insert(static_cast<std::int32_t>(value.number())).second) return;
    stored->number = (stored->number - offset->number) * factor->number;
  }

  void add_constant(const OnnxNode& node, Value value) {
    for (const OnnxTensor& tensor : node.tensors) add_tensor(tensor, value, node.outputs.front());
    if (value.exists() && !s().values[value].tensor.exists()) s().values[value].tensor = s().tensors.add({});
  }

  // Adds a body's nodes to the list. Its results become inputs of the node with the body, so that data flows through.
  void add_body(const OnnxGraph& body, const OnnxNode& holder, StructureNode<S>& entry, Names& names, int depth) {
    entry.holds_bodies = true;
    Names inner;
    inner.outer = &names;
    add_initializers(body, inner);
    // Loop: iteration, condition, carried values. Scan: carried values, then slices of the scanned ones.
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      const Value value = declare(inner, body.inputs[i].name);
      const Value outer = i < holder.inputs.size() ? resolve(names, holder.inputs[i]) : Value();
      if (!value.exists() || !outer.exists()) continue;
      StructureNode<S> pass;
      pass.op_type = "Identity";
      pass.inputs = {outer};
      pass.outputs = {value};
      s().add_node(std::move(pass));
    }
    add_nodes(body.nodes, inner, depth);
    for (const OnnxValue& output : body.outputs) entry.inputs.push_back(resolve(inner, output.name));
  }

  void add_call(const OnnxNode& node, const OnnxFunction& function, Names& names, int depth) {
    if (++call_count_ > max_calls) {  // functions without nodes take time too
      throw Error(Code::over_limit, "local functions call each other more than " + std::to_string(max_calls) + " times",
                  "inline the functions of the model", place_);
    }
    if (depth >= max_call_depth || std::ranges::find(calls_, &function) != calls_.end()) {
      Place place = place_;
      place.node = node.name;
      throw Error(Code::corrupt_file, "the local function " + std::string(function.name) + " calls itself",
                  "export the model again without recursive functions", place);
    }
    calls_.push_back(&function);
    const std::size_t first = s().nodes.size();
    Names inner;
    for (std::size_t i = 0; i < function.inputs.size(); ++i) {
      const Value value = i < node.inputs.size() ? resolve(names, node.inputs[i]) : Value();
      if (value.exists()) inner.own.emplace(function.inputs[i], value);
    }
    for (std::size_t i = 0; i < function.outputs.size() && i < node.outputs.size(); ++i) {
      const Value value = resolve(names, node.outputs[i]);
      if (value.exists()) inner.own.emplace(function.outputs[i], value);
    }
    add_nodes(function.nodes, inner, depth + 1);
    auto& inside = result_.callee_nodes[sources_.at(&node)];
    for (std::size_t i = first; i < s().nodes.size(); ++i) inside.emplace_back(i);
    calls_.pop_back();
  }

  std::uint64_t digest_attributes(const OnnxNode& node, std::uint64_t& padding) const {
    std::uint64_t total = 0;
    for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
      if (attribute.holds_graph) continue;
      AttributeDigest digest(attribute.name);
      for (FieldReader reader(attribute.message, place_); !reader.done();) {
        const Field field = reader.next();
        if (field.number == 2 || field.number == 3) digest.add(field.value);  // f, i
        if (field.is_bytes(4)) digest.add(field.bytes);                       // s
        if (field.number == 7) add_floats(field, digest);
        if (field.number == 8) add_integers(field, digest);
        if (field.is_bytes(9)) digest.add(field.bytes);
      }
      total += digest.value();
      if (attribute.name == "pads" && pads_anything(attribute)) padding = digest.value();
    }
    return total;
  }

  // Returns true for an integer other than zero.
  bool is_set(const onnx_file::OnnxAttribute& attribute) const {
    for (FieldReader reader(attribute.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.number == 3) return field.value != 0;
    }
    return false;
  }

  // Returns true for a number other than 1.
  bool is_not_one(const onnx_file::OnnxAttribute& attribute) const {
    for (FieldReader reader(attribute.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.number == 2 && std::bit_cast<float>(static_cast<std::uint32_t>(field.value)) != 1.0F) return true;
    }
    return false;
  }

  // Returns true for a nonempty string.
  bool is_text(const onnx_file::OnnxAttribute& attribute) const {
    for (FieldReader reader(attribute.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.is_bytes(4) && !field.bytes.empty()) return true;
    }
    return false;
  }

  bool pads_anything(const onnx_file::OnnxAttribute& attribute) const {
    bool any = false;
    for (FieldReader reader(attribute.message, place_); !reader.done();) {
      const Field field = reader.next();
      if (field.number != 8) continue;
      if (field.type != wire::WireType::bytes) any |= field.value != 0;
      for (FieldReader packed(field.bytes, place_); !packed.done();) any |= packed.varint() != 0;
    }
    return any;
  }

  void add_floats(const Field& field, AttributeDigest& digest) const {
    if (field.type != wire::WireType::bytes) return digest.add(field.value);
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= field.bytes.size(); at += sizeof(std::uint32_t)) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, field.bytes.data() + at, sizeof bits);
      digest.add(std::uint64_t{bits});
    }
  }

  void add_integers(const Field& field, AttributeDigest& digest) const {
    if (field.type != wire::WireType::bytes) return digest.add(field.value);
    for (FieldReader packed(field.bytes, place_); !packed.done();) digest.add(packed.varint());
  }

  const OnnxSummary& model_;
  onnx_file::CalledFunctions functions_;
  Place place_;
  FileStructure<S> result_;
  FlatMap<const OnnxNode*, FileNodeIndex> sources_;
  std::vector<const OnnxFunction*> calls_;
  std::size_t call_count_ = 0;
  std::unordered_set<std::int32_t> dequantized_;  // values of quantised constants
};

}  // namespace

std::vector<const OnnxNode*> nodes_with_functions(const OnnxSummary& model) {
  std::vector<const OnnxNode*> nodes;
  collect(model.graph.nodes, nodes);
  for (const OnnxFunction& function : model.functions) collect(function.nodes, nodes);
  return nodes;
}

template <Side S>
FileStructure<S> make_structure(const OnnxSummary& model) {
  return Builder<S>(model).build();
}
template FileStructure<Side::foreign> make_structure(const OnnxSummary& model);
template FileStructure<Side::reference> make_structure(const OnnxSummary& model);

void release_bytes(const OnnxSummary& model, const onnx_file::ExternalBytes* external, const StructureTensor& tensor) {
  constexpr std::size_t large = 1ULL << 20U;
  if (tensor.bytes.size() < large) return;
  onnx_file::release_part(*model.file, tensor.bytes);
  if (external != nullptr) external->release(tensor.bytes);
}

}  // namespace whence::match
