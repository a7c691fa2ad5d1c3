#include "annotator/functions/inline_calls.h"

#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "annotator/functions/block.h"
#include "annotator/functions/call_metadata.h"
#include "annotator/functions/inlined_size.h"
#include "annotator/functions/node_values.h"
#include "annotator/onnx_file/called_functions.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/text/unique_names.h"

namespace whence::functions {

namespace keys = origin::keys;
using onnx_file::OnnxFunction;
using onnx_file::OnnxGraph;
using onnx_file::OnnxNode;
using onnx_file::OnnxTensor;
using onnx_file::OnnxValue;

namespace {

// Limit for the nodes of an inlined graph: a minimum, even for a small file, and more for each stored node.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // a fuzzer would spend its time on files that expand
constexpr std::uint64_t min_node_limit = 2'000, limit_per_stored_node = 50;
#else
constexpr std::uint64_t min_node_limit = 500'000, limit_per_stored_node = 1'000;
#endif

constexpr int max_call_depth = 200;

bool is_made_by_whence(const OnnxFunction& function) { return !metadata_of(function, keys::function).empty(); }

// Returns the value under `key` in the metadata of a message; empty if there is none.
std::string entry_of(const onnx::NodeProto& node, std::string_view key) {
  for (const onnx::StringStringEntryProto& entry : node.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

// Replaces a function node's references to attributes of the call with their values.
void resolve_references(onnx::NodeProto& node, const std::map<std::string, onnx::AttributeProto>& call_attributes) {
  for_each_body(node, [&](onnx::GraphProto& body) {
    for (onnx::NodeProto& inner : *body.mutable_node()) resolve_references(inner, call_attributes);
  });
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> resolved;
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *resolved.Add() = std::move(attribute);
      continue;
    }
    const auto value = call_attributes.find(attribute.ref_attr_name());
    if (value == call_attributes.end()) continue;  // if there is no default, the operator's own applies
    onnx::AttributeProto& copy = *resolved.Add();
    copy = value->second;
    copy.set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(&resolved);
}

// Returns true for a Constant that outline() copied into a function, from a small initializer or a shared Constant.
bool is_copied_constant(const onnx::NodeProto& node) {
  return !entry_of(node, keys::constant).empty() && node.output_size() == 1 && node.attribute_size() == 1;
}

// The functions whose calls are inlined.
class FunctionTable {
 public:
  FunctionTable(const ModelParts& parts, std::function<bool(const OnnxFunction&)> is_selected)
      : is_selected_(std::move(is_selected)) {
    for (const OnnxFunction& function : parts.functions) {
      if (!is_selected_(function)) continue;
      protos_.push_back(proto_of(function));
      const onnx::FunctionProto& proto = protos_.back();
      if (functions_.try_emplace({proto.domain(), proto.name(), proto.overload()}, &proto).second) continue;
      throw Error(Code::corrupt_file, "the function " + proto.name() + " is defined twice",
                  "the file does not state which definition its calls use; export it again",
                  {.file = parts.path, .stage = "inline"});
    }
  }

  bool empty() const { return protos_.empty(); }
  auto begin() const { return protos_.begin(); }
  auto end() const { return protos_.end(); }
  const std::function<bool(const OnnxFunction&)>& is_selected() const { return is_selected_; }

  const onnx::FunctionProto* callee(const OnnxNode& node) const { return find(key_of_called(node)); }
  const onnx::FunctionProto* callee(const onnx::NodeProto& node) const {
    return find({node.domain(), node.op_type(), node.overload()});
  }

 private:
  const onnx::FunctionProto* find(const onnx_file::FunctionKey& key) const {
    if (functions_.empty()) return nullptr;
    const auto found = functions_.find(key);
    return found == functions_.end() ? nullptr : found->second;
  }

  std::function<bool(const OnnxFunction&)> is_selected_;
  std::deque<onnx::FunctionProto> protos_;
  std::map<onnx_file::FunctionKey, const onnx::FunctionProto*> functions_;
};

class Inliner {
 public:
  Inliner(ModelParts& parts, bool all)
      : parts_(parts), functions_(parts, [all](const OnnxFunction& each) { return all || is_made_by_whence(each); }) {
    if (functions_.empty()) return;  // without functions no names are needed
    const OnnxGraph& graph = parts.graph;
    for (const auto* stated : {&graph.value_info, &graph.inputs, &graph.outputs}) {
      for (const OnnxValue& value : *stated) typed_values_.emplace(value.name);
    }
    claim_values(graph);
    for (const OnnxNode& node : graph.nodes) {
      if (functions_.callee(node) == nullptr && !node.name.empty()) nodes_.claim(std::string(node.name));
    }
  }

  InlineReport run() {
    InlineReport report;
    std::vector<OnnxNode> nodes;
    nodes.reserve(checked_size());
    for (OnnxNode& node : parts_.graph.nodes) {
      if (functions_.callee(node) != nullptr || has_call_in_body(node)) {
        for (const onnx::NodeProto& each : replacement(proto_of(node), report)) nodes.push_back(parts_.node(each));
      } else {
        nodes.push_back(std::move(node));
      }
    }
    parts_.graph.nodes = std::move(nodes);
    report.nodes = static_cast<std::int64_t>(parts_.graph.nodes.size());
    report.functions = drop_functions();
    restore_ir_version();
    return report;
  }

 private:
  bool has_call_in_body(const OnnxNode& node) const {
    bool any = false;
    for (const OnnxGraph& body : node.subgraphs) {
      onnx_file::walk_nodes(body.nodes, [&](const OnnxNode& each) { any |= functions_.callee(each) != nullptr; });
    }
    return any;
  }

  // Claims the names of all values, also in bodies.
  void claim_values(const OnnxGraph& outermost) {
    const auto claim = [&](std::string_view name) {
      if (!name.empty()) values_.claim(std::string(name));
    };
    onnx_file::walk_graphs(outermost, [&](const OnnxGraph& graph) {
      for (const OnnxValue& input : graph.inputs) claim(input.name);
      for (const OnnxTensor& tensor : graph.initializers) claim(tensor.name);
      for (const OnnxNode& node : graph.nodes) {
        for (const std::string_view output : node.outputs) claim(output);
      }
    });
  }

  // Returns the nodes that replace a node: those of the function if it is a call, else the node itself with the calls
  // in its bodies inlined.
  std::vector<onnx::NodeProto> replacement(onnx::NodeProto node, InlineReport& report) {
    if (const onnx::FunctionProto* const function = functions_.callee(node)) {
      ++report.calls;
      return restored_nodes(node, *function);
    }
    for_each_body(node, [&](onnx::GraphProto& body) {
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      for (onnx::NodeProto& inner : *body.mutable_node()) {
        for (onnx::NodeProto& each : replacement(std::move(inner), report)) *nodes.Add() = std::move(each);
      }
      body.mutable_node()->Swap(&nodes);
    });
    return {std::move(node)};
  }

  std::vector<onnx::NodeProto> restored_nodes(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
    std::vector<onnx::NodeProto> leaves;
    expand(call, function, entry_of(call, keys::module), 0, leaves);
    const std::string stored_differences = entry_of(call, keys::differs);
    if (!stored_differences.empty()) {
      std::vector<onnx::NodeProto*> all;
      for (onnx::NodeProto& leaf : leaves) for_each_node(leaf, [&](onnx::NodeProto& each) { all.push_back(&each); });
      apply_differences(stored_differences, all);
    }
    return leaves;
  }

  // Adds the nodes of the function and of its nested calls to `leaves`. Copied constants become initializers instead.
  void expand(const onnx::NodeProto& call, const onnx::FunctionProto& function, const std::string& module, int depth,
              std::vector<onnx::NodeProto>& leaves) {
    const Place place{.file = parts_.path, .stage = "inline", .node = call.name()};
    if (depth > max_call_depth) {
      throw Error(Code::corrupt_file, "functions call each other recursively or too deeply: " + function.name(),
                  "ONNX does not allow recursion; export the model again", place);
    }
    check_versions(function, place);
    if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
      throw Error(Code::corrupt_file, "a call has more inputs or outputs than its function " + function.name(),
                  "export the model again", place);
    }
    std::unordered_map<std::string, std::string> names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
    for (int i = 0; i < call.output_size(); ++i) {
      if (!call.output(i).empty()) names[function.output(i)] = call.output(i);
    }
    std::map<std::string, onnx::AttributeProto> attributes;
    for (const onnx::AttributeProto& attribute : function.attribute_proto()) attributes[attribute.name()] = attribute;
    for (const onnx::AttributeProto& attribute : call.attribute()) attributes[attribute.name()] = attribute;
    const std::string prefix = call.name().empty() ? "" : call.name() + "/";
    const auto rename = [&](const std::string& name) {
      const auto [entry, is_new] = names.try_emplace(name);
      if (is_new) entry->second = values_.claim(prefix + from_template(name, module));
      return entry->second;
    };
    for (const onnx::NodeProto& function_node : function.node()) {
      if (restore_initializer(function_node, names)) continue;
      onnx::NodeProto node = function_node;
      resolve_references(node, attributes);
      rename_inner_values(node, [&](const std::string& name) { return rename(name); });
      rename_values(node, rename);
      for_each_node(node, [&](onnx::NodeProto& each) {
        for (auto& entry : *each.mutable_metadata_props()) fill_template(*entry.mutable_value(), module);
      });
      node.set_name(prefix + from_template(node.name(), module));
      if (const onnx::FunctionProto* inner = functions_.callee(node)) {
        expand(node, *inner, entry_of(node, keys::module), depth + 1, leaves);
      } else {
        node.set_name(nodes_.claim(node.name()));
        leaves.push_back(std::move(node));
      }
    }
    add_identities(call, function, leaves);
    add_types(function, names);
  }

  void add_types(const onnx::FunctionProto& function, const std::unordered_map<std::string, std::string>& names) {
    for (const onnx::ValueInfoProto& type : function.value_info()) {
      const auto name = names.find(type.name());
      if (name == names.end() || !typed_values_.insert(name->second).second) continue;
      onnx::ValueInfoProto added = type;
      added.set_name(name->second);
      parts_.graph.value_info.push_back(parts_.value(added));
    }
  }

  // Adds an Identity for each output that is also an input of the function, so that the output gets its name.
  void add_identities(const onnx::NodeProto& call, const onnx::FunctionProto& function,
                      std::vector<onnx::NodeProto>& leaves) {
    for (int i = 0; i < call.output_size(); ++i) {
      for (int k = 0; k < function.input_size(); ++k) {
        if (call.output(i).empty() || function.output(i) != function.input(k)) continue;
        onnx::NodeProto& node = leaves.emplace_back();
        node.set_op_type("Identity");
        node.set_name(nodes_.claim(call.name() + "/Identity"));
        node.add_input(k < call.input_size() ? call.input(k) : "");
        node.add_output(call.output(i));
      }
    }
  }

  // Turns a copied Constant back into an initializer, one for each content. Returns false for other nodes.
  bool restore_initializer(const onnx::NodeProto& node, std::unordered_map<std::string, std::string>& names) {
    if (!is_copied_constant(node)) return false;
    const auto [entry, is_new] = constants_.try_emplace(content_of(node.attribute(0).t()));
    if (is_new) {
      entry->second = values_.claim("constant");
      onnx::TensorProto tensor = node.attribute(0).t();
      tensor.set_name(entry->second);
      parts_.graph.initializers.push_back(parts_.tensor(tensor));
    }
    names[node.output(0)] = entry->second;
    return true;
  }

  // Returns the number of nodes of the inlined graph; throws if there are too many.
  std::uint64_t checked_size() const {
    const auto nodes = inlined_size(parts_, functions_.is_selected());
    const Place place{.file = parts_.path, .stage = "inline"};
    if (!nodes)
      throw Error(Code::corrupt_file, "functions call each other recursively or too deeply",
                  "ONNX does not allow recursion; export the model again", place);
    // A small file that expands to millions of nodes is meant to exhaust its reader.
    const std::uint64_t limit =
        std::min(max_inlined_nodes, min_node_limit + limit_per_stored_node * stored_nodes(parts_));
    if (*nodes <= limit) return *nodes;
    throw Error(Code::over_limit,
                "inlining the file's functions would give more than " + std::to_string(limit) + " nodes",
                "keep them as functions", place);
  }

  void check_versions(const onnx::FunctionProto& function, const Place& place) const {
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      const std::int64_t model_version = parts_.opset(import.domain());
      if (model_version < 0 || model_version == import.version()) continue;
      throw Error(Code::unsupported_feature,
                  "the function " + function.name() + " uses version " + std::to_string(import.version()) +
                      " of operator set '" + import.domain() + "', the model version " + std::to_string(model_version),
                  "convert the model to one version first", place);
    }
  }

  // Removes the inlined functions, and imports of domains that only they used.
  std::int64_t drop_functions() {
    const auto removed = std::erase_if(parts_.functions, functions_.is_selected());
    std::set<std::string_view> removed_domains, used_domains;
    for (const onnx::FunctionProto& function : functions_) {
      removed_domains.insert(function.domain());
      for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
        parts_.import(import.domain(), import.version());
      }
    }
    for (const OnnxFunction& function : parts_.functions) used_domains.insert(function.domain);
    onnx_file::walk_nodes(parts_.graph.nodes, [&](const OnnxNode& each) { used_domains.insert(each.domain); });
    google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
    for (onnx::OperatorSetIdProto& import : *parts_.frame.mutable_opset_import()) {
      if (!removed_domains.contains(import.domain()) || used_domains.contains(import.domain()))
        *imports.Add() = std::move(import);
    }
    parts_.frame.mutable_opset_import()->Swap(&imports);
    return static_cast<std::int64_t>(removed);
  }

  void restore_ir_version() {
    auto& entries = *parts_.frame.mutable_metadata_props();
    for (int i = entries.size() - 1; i >= 0; --i) {
      if (entries[i].key() != keys::ir_before) continue;
      std::int64_t version = 0;
      const std::string& text = entries[i].value();
      std::from_chars(text.data(), text.data() + text.size(), version);
      if (version > 0) parts_.frame.set_ir_version(version);
      entries.DeleteSubrange(i, 1);
    }
  }

  ModelParts& parts_;
  FunctionTable functions_;
  text::UniqueNames values_, nodes_;
  std::set<std::string, std::less<>> typed_values_;  // values of the graph with a stated type
  std::map<std::string, std::string> constants_;     // content to name
};

}  // namespace

InlineReport inline_calls(ModelParts& parts, bool all) { return Inliner(parts, all).run(); }

void for_each_call(const ModelParts& parts,
                   const std::function<void(const OnnxNode&, const std::vector<FunctionNode>&)>& visit) {
  const FunctionTable functions(parts, is_made_by_whence);
  std::vector<FunctionNode> leaves;
  std::deque<std::string> modules;  // owns the module names of inner calls
  const std::function<void(const onnx::FunctionProto&, std::string_view, int)> expand =
      [&](const onnx::FunctionProto& function, std::string_view module, int depth) {
        for (const onnx::NodeProto& node : function.node()) {
          if (is_copied_constant(node)) continue;
          if (const onnx::FunctionProto* const inner = functions.callee(node);
              inner != nullptr && depth < max_call_depth) {
            expand(*inner, modules.emplace_back(from_template(entry_of(node, keys::module), module)), depth + 1);
          } else {
            for_each_node(node, [&](const onnx::NodeProto& each) { leaves.push_back({&each, module}); });
          }
        }
      };
  for (const OnnxNode& node : parts.graph.nodes) {
    const onnx::FunctionProto* const function = functions.callee(node);
    if (function == nullptr) continue;
    leaves.clear(), modules.clear();
    expand(*function, metadata_of(node, keys::module), 0);
    visit(node, leaves);
  }
}

Result<InlineReport> inline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output, bool all) {
  return guarded([&] {
    ModelParts parts = read_model_parts(input);
    const InlineReport report = inline_calls(parts, all);
    write_model_parts(std::move(parts), output);
    return report;
  });
}

}  // namespace whence::functions
