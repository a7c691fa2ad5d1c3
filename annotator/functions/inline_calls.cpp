#include "annotator/functions/inline_calls.h"

#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "annotator/functions/block.h"
#include "annotator/functions/call_text.h"
#include "annotator/functions/node_values.h"
#include "annotator/functions/written_size.h"
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

// Nodes that a file may stand for: so many however small it is, and more for each that it holds.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // a fuzzer would spend its hours on files that expand
constexpr std::uint64_t least_bound = 2'000, nodes_for_each = 50;
#else
constexpr std::uint64_t least_bound = 500'000, nodes_for_each = 1'000;
#endif

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload
constexpr int deepest_call = 200;

bool made_by_whence(const OnnxFunction& function) { return !metadata_of(function, keys::function).empty(); }

// The value under `key` of a message's metadata; empty when there is none.
std::string entry_of(const onnx::NodeProto& node, std::string_view key) {
  for (const onnx::StringStringEntryProto& entry : node.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

// Replaces attributes of a function's node that refer to attributes of the call.
void resolve_references(onnx::NodeProto& node, const std::map<std::string, onnx::AttributeProto>& given) {
  for_each_body(node, [&](onnx::GraphProto& body) {
    for (onnx::NodeProto& inner : *body.mutable_node()) resolve_references(inner, given);
  });
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> resolved;
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *resolved.Add() = std::move(attribute);
      continue;
    }
    const auto value = given.find(attribute.ref_attr_name());
    if (value == given.end()) continue;  // not given and without default: the operator's own default holds
    onnx::AttributeProto& copy = *resolved.Add();
    copy = value->second;
    copy.set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(&resolved);
}

// True for a Constant that was pulled into a function: it was a small initializer, or a Constant with other readers.
bool is_pulled_in(const onnx::NodeProto& node) {
  return !entry_of(node, keys::constant).empty() && node.output_size() == 1 && node.attribute_size() == 1;
}

// The functions whose calls are written out.
class Functions {
 public:
  Functions(const ModelParts& parts, std::function<bool(const OnnxFunction&)> chosen) : chosen_(std::move(chosen)) {
    for (const OnnxFunction& function : parts.functions) {
      if (!chosen_(function)) continue;
      protos_.push_back(proto_of(function));
      const onnx::FunctionProto& proto = protos_.back();
      if (functions_.try_emplace({proto.domain(), proto.name(), proto.overload()}, &proto).second) continue;
      throw Error(Code::corrupt_file, "the function " + proto.name() + " is defined twice",
                  "which of the two a call means, the file does not say; export it again",
                  {.file = parts.path, .stage = "inline"});
    }
  }

  bool empty() const { return protos_.empty(); }
  auto begin() const { return protos_.begin(); }
  auto end() const { return protos_.end(); }
  const std::function<bool(const OnnxFunction&)>& chosen() const { return chosen_; }

  const onnx::FunctionProto* called(const OnnxNode& node) const {
    return find({node.domain, node.op_type, node.overload});
  }
  const onnx::FunctionProto* called(const onnx::NodeProto& node) const {
    return find({node.domain(), node.op_type(), node.overload()});
  }

 private:
  const onnx::FunctionProto* find(const FunctionKey& key) const {
    if (functions_.empty()) return nullptr;
    const auto found = functions_.find(key);
    return found == functions_.end() ? nullptr : found->second;
  }

  std::function<bool(const OnnxFunction&)> chosen_;
  std::deque<onnx::FunctionProto> protos_;
  std::map<FunctionKey, const onnx::FunctionProto*> functions_;
};

class Inliner {
 public:
  Inliner(ModelParts& parts, bool all)
      : parts_(parts), functions_(parts, [all](const OnnxFunction& each) { return all || made_by_whence(each); }) {
    if (functions_.empty()) return;  // no name is needed
    const OnnxGraph& graph = parts.graph;
    for (const auto* stated : {&graph.value_info, &graph.inputs, &graph.outputs}) {
      for (const OnnxValue& value : *stated) typed_.emplace(value.name);
    }
    claim_values(graph);
    for (const OnnxNode& node : graph.nodes) {
      if (functions_.called(node) == nullptr && !node.name.empty()) nodes_.claim(std::string(node.name));
    }
  }

  InlineReport run() {
    InlineReport report;
    std::vector<OnnxNode> nodes;
    nodes.reserve(checked_size());
    for (OnnxNode& node : parts_.graph.nodes) {
      if (functions_.called(node) != nullptr || holds_call(node)) {
        for (const onnx::NodeProto& each : inlined(proto_of(node), report)) nodes.push_back(parts_.node(each));
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
  bool holds_call(const OnnxNode& node) const {
    bool any = false;
    for (const OnnxGraph& body : node.subgraphs) {
      onnx_file::walk_nodes(body.nodes, [&](const OnnxNode& each) { any |= functions_.called(each) != nullptr; });
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

  // Returns the nodes that replace a node: those of the function if it is a call, else itself with the calls in its
  // bodies written out.
  std::vector<onnx::NodeProto> inlined(onnx::NodeProto node, InlineReport& report) {
    if (const onnx::FunctionProto* const function = functions_.called(node)) {
      ++report.calls;
      return write_out(node, *function);
    }
    for_each_body(node, [&](onnx::GraphProto& body) {
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      for (onnx::NodeProto& inner : *body.mutable_node()) {
        for (onnx::NodeProto& each : inlined(std::move(inner), report)) *nodes.Add() = std::move(each);
      }
      body.mutable_node()->Swap(&nodes);
    });
    return {std::move(node)};
  }

  std::vector<onnx::NodeProto> write_out(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
    std::vector<onnx::NodeProto> leaves;
    expand(call, function, entry_of(call, keys::module), 0, leaves);
    const std::string differing = entry_of(call, keys::differs);
    if (!differing.empty()) {
      std::vector<onnx::NodeProto*> all;
      for (onnx::NodeProto& leaf : leaves) for_each_node(leaf, [&](onnx::NodeProto& each) { all.push_back(&each); });
      apply_differences(differing, all);
    }
    return leaves;
  }

  // Constants that were pulled into the function do not come back as nodes, so they are not leaves.
  void expand(const onnx::NodeProto& call, const onnx::FunctionProto& function, const std::string& module, int depth,
              std::vector<onnx::NodeProto>& leaves) {
    const Place place{.file = parts_.path, .stage = "inline", .node = call.name()};
    if (depth > deepest_call) {
      throw Error(Code::corrupt_file, "functions call each other without end: " + function.name(),
                  "ONNX has no recursion", place);
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
      if (is_new) entry->second = values_.claim(prefix + name);
      return entry->second;
    };
    for (const onnx::NodeProto& inside : function.node()) {
      if (take_constant(inside, names)) continue;
      onnx::NodeProto node = inside;
      resolve_references(node, attributes);
      rename_inner_values(node, [&](const std::string& name) { return rename(name); });
      rename_values(node, rename);
      for_each_node(node, [&](onnx::NodeProto& each) {
        for (auto& entry : *each.mutable_metadata_props()) fill_template(*entry.mutable_value(), module);
      });
      node.set_name(prefix + node.name());
      if (const onnx::FunctionProto* inner = functions_.called(node)) {
        expand(node, *inner, entry_of(node, keys::module), depth + 1, leaves);
      } else {
        node.set_name(nodes_.claim(node.name()));
        leaves.push_back(std::move(node));
      }
    }
    pass_through(call, function, leaves);
    add_types(function, names);
  }

  void add_types(const onnx::FunctionProto& function, const std::unordered_map<std::string, std::string>& names) {
    for (const onnx::ValueInfoProto& type : function.value_info()) {
      const auto name = names.find(type.name());
      if (name == names.end() || !typed_.insert(name->second).second) continue;
      onnx::ValueInfoProto added = type;
      added.set_name(name->second);
      parts_.graph.value_info.push_back(parts_.value(added));
    }
  }

  // An output that is an input of the function needs a node that gives it its name.
  void pass_through(const onnx::NodeProto& call, const onnx::FunctionProto& function,
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

  // Turns a Constant of a function that whence made back into an initializer. Constants of the same content become one.
  bool take_constant(const onnx::NodeProto& node, std::unordered_map<std::string, std::string>& names) {
    if (!is_pulled_in(node)) return false;
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

  // Returns the number of nodes of the graph when its calls are written out; throws if there are too many.
  std::uint64_t checked_size() const {
    const auto nodes = written_size(parts_, functions_.chosen());
    const Place place{.file = parts_.path, .stage = "inline"};
    if (!nodes)
      throw Error(Code::corrupt_file, "functions call each other without end", "ONNX has no recursion", place);
    // A small file that stands for millions is made to exhaust who reads it.
    const std::uint64_t most = std::min(most_written_nodes, least_bound + nodes_for_each * stored_nodes(parts_));
    if (*nodes <= most) return *nodes;
    throw Error(Code::over_limit, "the functions of the file stand for more than " + std::to_string(most) + " nodes",
                "keep them as functions", place);
  }

  void check_versions(const onnx::FunctionProto& function, const Place& place) const {
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      const std::int64_t outside = parts_.opset(import.domain());
      if (outside < 0 || outside == import.version()) continue;
      throw Error(Code::unsupported_feature,
                  "the function " + function.name() + " is written in version " + std::to_string(import.version()) +
                      " of '" + import.domain() + "', the model in " + std::to_string(outside),
                  "convert the model to one version first", place);
    }
  }

  // Removes functions that are no longer called, and imports of domains that only they used.
  std::int64_t drop_functions() {
    const auto dropped = std::erase_if(parts_.functions, functions_.chosen());
    std::set<std::string_view> gone, used;
    for (const onnx::FunctionProto& function : functions_) {
      gone.insert(function.domain());
      for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
        parts_.import(import.domain(), import.version());
      }
    }
    for (const OnnxFunction& function : parts_.functions) used.insert(function.domain);
    onnx_file::walk_nodes(parts_.graph.nodes, [&](const OnnxNode& each) { used.insert(each.domain); });
    google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
    for (onnx::OperatorSetIdProto& import : *parts_.frame.mutable_opset_import()) {
      if (!gone.contains(import.domain()) || used.contains(import.domain())) *imports.Add() = std::move(import);
    }
    parts_.frame.mutable_opset_import()->Swap(&imports);
    return static_cast<std::int64_t>(dropped);
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
  Functions functions_;
  text::UniqueNames values_, nodes_;
  std::set<std::string, std::less<>> typed_;      // values of the graph whose type is stated
  std::map<std::string, std::string> constants_;  // content to name
};

}  // namespace

InlineReport inline_calls(ModelParts& parts, bool all) { return Inliner(parts, all).run(); }

void for_each_call(const ModelParts& parts,
                   const std::function<void(const OnnxNode&, const std::vector<FunctionNode>&)>& visit) {
  const Functions functions(parts, made_by_whence);
  std::vector<FunctionNode> leaves;
  std::deque<std::string> modules;  // owns the names of inner calls' modules
  const std::function<void(const onnx::FunctionProto&, std::string_view, int)> expand =
      [&](const onnx::FunctionProto& function, std::string_view module, int depth) {
        for (const onnx::NodeProto& node : function.node()) {
          if (is_pulled_in(node)) continue;
          if (const onnx::FunctionProto* const inner = functions.called(node);
              inner != nullptr && depth < deepest_call) {
            expand(*inner, modules.emplace_back(from_template(entry_of(node, keys::module), module)), depth + 1);
          } else {
            for_each_node(node, [&](const onnx::NodeProto& each) { leaves.push_back({&each, module}); });
          }
        }
      };
  for (const OnnxNode& node : parts.graph.nodes) {
    const onnx::FunctionProto* const function = functions.called(node);
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
