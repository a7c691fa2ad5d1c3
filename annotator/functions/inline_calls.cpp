#include "annotator/functions/inline_calls.h"

#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "annotator/functions/block.h"
#include "annotator/functions/call_text.h"
#include "annotator/functions/node_values.h"
#include "annotator/functions/written_size.h"
#include "annotator/origin/keys.h"
#include "annotator/text/unique_names.h"

namespace whence::functions {

namespace keys = origin::keys;

namespace {

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
constexpr int deepest_call = 200;

bool made_by_whence(const onnx::FunctionProto& function) { return !metadata_of(function, keys::function).empty(); }

// Attributes of a function's nodes that stand for attributes of the call.
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

class Inliner {
 public:
  Inliner(ModelParts& parts, bool all) : parts_(parts), all_(all) {
    for (const onnx::FunctionProto& function : parts.model.functions()) {
      functions_[{function.domain(), function.name(), function.overload()}] = &function;
    }
    const onnx::GraphProto& graph = parts.model.graph();
    for (const onnx::ValueInfoProto& input : graph.input()) values_.claim(input.name());
    for (const auto* stated : {&graph.value_info(), &graph.input(), &graph.output()}) {
      for (const onnx::ValueInfoProto& value : *stated) typed_.insert(value.name());
    }
    for (const StoredTensor& tensor : parts.initializers) values_.claim(tensor.header.name());
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) {
        if (!output.empty()) values_.claim(output);
      }
      for_each_inner_value(node, [&](const std::string& name) { values_.claim(name); });
      if (called(node) == nullptr && !node.name().empty()) nodes_.claim(node.name());
    }
  }

  // What each call of the outermost graph stands for, without what the call says itself.
  std::vector<std::vector<onnx::NodeProto>> leaves_by_call() {
    std::vector<std::vector<onnx::NodeProto>> result;
    for (const onnx::NodeProto& node : parts_.model.graph().node()) {
      const onnx::FunctionProto* const function = called(node);
      if (function == nullptr) continue;
      expand(node, *function, metadata_of(node, keys::module), 0, result.emplace_back());
    }
    return result;
  }

  InlineReport run() {
    check_size();
    InlineReport report;
    onnx::GraphProto& graph = *parts_.model.mutable_graph();
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      const onnx::FunctionProto* function = called(node);
      if (function == nullptr) {
        inline_bodies(node, report);
        *nodes.Add() = std::move(node);
        continue;
      }
      ++report.calls;
      for (onnx::NodeProto& leaf : write_out(node, *function)) *nodes.Add() = std::move(leaf);
    }
    graph.mutable_node()->Swap(&nodes);
    report.nodes = graph.node_size();
    report.functions = drop_functions();
    restore_ir_version();
    return report;
  }

 private:
  const onnx::FunctionProto* called(const onnx::NodeProto& node) const {
    const auto found = functions_.find({node.domain(), node.op_type(), node.overload()});
    return found != functions_.end() && (all_ || made_by_whence(*found->second)) ? found->second : nullptr;
  }

  void inline_bodies(onnx::NodeProto& node, InlineReport& report) {
    for_each_body(node, [&](onnx::GraphProto& body) {
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      for (onnx::NodeProto& inner : *body.mutable_node()) {
        if (const onnx::FunctionProto* function = called(inner)) {
          ++report.calls;
          for (onnx::NodeProto& leaf : write_out(inner, *function)) *nodes.Add() = std::move(leaf);
        } else {
          inline_bodies(inner, report);
          *nodes.Add() = std::move(inner);
        }
      }
      body.mutable_node()->Swap(&nodes);
    });
  }

  std::vector<onnx::NodeProto> write_out(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
    std::vector<onnx::NodeProto> leaves;
    expand(call, function, metadata_of(call, keys::module), 0, leaves);
    const std::string differing = metadata_of(call, keys::differs);
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
        for (auto& entry : *each.mutable_metadata_props()) entry.set_value(from_template(entry.value(), module));
      });
      node.set_name(prefix + node.name());
      if (const onnx::FunctionProto* inner = called(node)) {
        expand(node, *inner, metadata_of(node, keys::module), depth + 1, leaves);
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
      onnx::ValueInfoProto& added = *parts_.model.mutable_graph()->add_value_info();
      added = type;
      added.set_name(name->second);
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

  // Functions of whence hold what was a small initializer, or a Constant that others read, too, as a Constant: one for
  // all that hold the same.
  bool take_constant(const onnx::NodeProto& node, std::unordered_map<std::string, std::string>& names) {
    const std::string was = metadata_of(node, keys::constant);
    if (was.empty() || node.output_size() != 1 || node.attribute_size() != 1) return false;
    const auto [entry, is_new] = constants_.try_emplace(content_of(node.attribute(0).t()));
    if (is_new) {
      entry->second = values_.claim("constant");
      StoredTensor tensor;
      tensor.header = node.attribute(0).t();
      tensor.header.set_name(entry->second);
      if (tensor.header.has_raw_data()) {
        tensor.raw = Bytes::owned(tensor.header.raw_data());
        tensor.header.clear_raw_data();
      }
      parts_.initializers.push_back(std::move(tensor));
    }
    names[node.output(0)] = entry->second;
    return true;
  }

  void check_size() const {
    const auto nodes = written_size(
        parts_.model, [this](const onnx::FunctionProto& function) { return all_ || made_by_whence(function); });
    const Place place{.file = parts_.path, .stage = "inline"};
    if (!nodes)
      throw Error(Code::corrupt_file, "functions call each other without end", "ONNX has no recursion", place);
    if (*nodes <= most_written_nodes) return;
    throw Error(Code::over_limit,
                "the functions of the file stand for more than " + std::to_string(most_written_nodes) + " nodes",
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

  // Those that are no longer called, and the domains that only they had.
  std::int64_t drop_functions() {
    google::protobuf::RepeatedPtrField<onnx::FunctionProto> kept;
    std::set<std::string> gone, used;
    std::int64_t dropped = 0;
    std::vector<onnx::OperatorSetIdProto> needed;
    for (onnx::FunctionProto& function : *parts_.model.mutable_functions()) {
      if (all_ || made_by_whence(function)) {
        ++dropped;
        gone.insert(function.domain());
        for (const onnx::OperatorSetIdProto& import : function.opset_import()) needed.push_back(import);
      } else {
        used.insert(function.domain());
        *kept.Add() = std::move(function);
      }
    }
    functions_.clear();
    parts_.model.mutable_functions()->Swap(&kept);
    for (const onnx::OperatorSetIdProto& import : needed) parts_.import(import.domain(), import.version());
    for (const onnx::NodeProto& node : parts_.model.graph().node()) {
      for_each_node(node, [&](const onnx::NodeProto& each) { used.insert(each.domain()); });
    }
    google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
    for (onnx::OperatorSetIdProto& import : *parts_.model.mutable_opset_import()) {
      if (!gone.contains(import.domain()) || used.contains(import.domain())) *imports.Add() = std::move(import);
    }
    parts_.model.mutable_opset_import()->Swap(&imports);
    return dropped;
  }

  void restore_ir_version() {
    auto& entries = *parts_.model.mutable_metadata_props();
    for (int i = entries.size() - 1; i >= 0; --i) {
      if (entries[i].key() != keys::ir_before) continue;
      std::int64_t version = 0;
      const std::string& text = entries[i].value();
      std::from_chars(text.data(), text.data() + text.size(), version);
      if (version > 0) parts_.model.set_ir_version(version);
      entries.DeleteSubrange(i, 1);
    }
  }

  ModelParts& parts_;
  bool all_;
  std::map<FunctionKey, const onnx::FunctionProto*> functions_;
  text::UniqueNames values_, nodes_;
  std::set<std::string> typed_;                   // values of the graph whose type is stated
  std::map<std::string, std::string> constants_;  // content to name
};

}  // namespace

InlineReport inline_calls(ModelParts& parts, bool all) { return Inliner(parts, all).run(); }

std::vector<std::vector<onnx::NodeProto>> nodes_by_call(const ModelParts& parts) {
  ModelParts copy = parts;
  return Inliner(copy, false).leaves_by_call();
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
