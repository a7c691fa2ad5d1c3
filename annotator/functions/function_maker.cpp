#include "annotator/functions/function_maker.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "annotator/functions/call_metadata.h"
#include "annotator/functions/node_values.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/confidence.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/origin/python_text.h"
#include "annotator/origin/scope_path.h"
#include "annotator/text/python_list.h"
#include "annotator/text/unique_names.h"
#include "schema/json_text.h"

namespace whence::functions {

using onnx_file::OnnxNode;
using onnx_file::OnnxTensor;
using origin::Confidence;
namespace keys = origin::keys;

namespace {

constexpr const char* default_domain = "whence.modules";

void collect_domains(const onnx::NodeProto& node, std::set<std::string>& domains) {
  for_each_node(node, [&](const onnx::NodeProto& each) { domains.insert(each.domain()); });
}

class FunctionMaker {
 public:
  FunctionMaker(const WorkGraph& graph, const std::vector<const ModuleBlock*>& blocks, const TypeMessages& types)
      : graph_(graph), blocks_(blocks), types_(types), first_(*blocks.front()) {}

  CutFunction make(const std::string& name) {
    onnx::FunctionProto& proto = function_.proto;
    const ModuleCall& instance = graph_.instances()[first_.instance];
    proto.set_name(name);
    proto.set_domain(function_domain(instance));
    proto.set_doc_string((instance.type.empty() ? name : instance.type) + ", called " +
                         (blocks_.size() == 1 ? "once" : std::to_string(blocks_.size()) + " times"));
    onnx::StringStringEntryProto& mark = *proto.add_metadata_props();
    mark.set_key(std::string(keys::function));
    mark.set_value("module");
    for (const ModuleBlock* block : blocks_) function_.calls.push_back({{}, block->instance, {}});
    divide_scalars();
    set_outputs();
    name_inputs();
    copy_constants();
    for (std::size_t i = 0; i < first_.nodes.size(); ++i) add_node(i);
    for (const BlockOutput& output : outputs_) proto.add_output(inner_.at(value_of(first_, output)));
    import_domains();
    add_types();
    for (std::size_t i = 0; i < blocks_.size(); ++i) make_call(i);
    return std::move(function_);
  }

 private:
  const OnnxNode& node(const ModuleBlock& block, std::size_t position) const {
    return *graph_.nodes()[block.nodes[position]].node;
  }
  ValueId value_of(const ModuleBlock& block, const BlockOutput& output) const {
    return graph_.nodes()[block.nodes[output.node]].writes[output.output];
  }
  const std::string& module_of(const ModuleBlock& block) const { return graph_.instances()[block.instance].path; }

  // Keeps scalars that are equal in all blocks inside the function; other scalars become inputs.
  void divide_scalars() {
    for (std::size_t k = 0; k < first_.scalars.size(); ++k) {
      const bool same = std::ranges::all_of(
          blocks_, [&](const ModuleBlock* block) { return block->scalar_contents[k] == first_.scalar_contents[k]; });
      (same ? inner_scalars_ : input_scalars_).push_back(k);
    }
  }

  // Makes each value that one of the calls outputs an output of the function.
  void set_outputs() {
    std::set<BlockOutput> needed;
    for (const ModuleBlock* block : blocks_) needed.insert(block->outputs.begin(), block->outputs.end());
    outputs_.assign(needed.begin(), needed.end());
  }

  // Names the inputs: weights by their names within the module, activations input, input_1, ...
  void name_inputs() {
    const std::string prefix = module_of(first_).empty() ? "" : module_of(first_) + ".";
    std::vector<ValueId> inputs = first_.inputs;
    for (const std::size_t k : input_scalars_) inputs.push_back(first_.scalars[k]);
    for (const ValueId id : inputs) {
      const WorkValue& value = graph_.value(id);
      std::string name = value.initializer >= 0 ? "weight" : "input";
      if (value.initializer >= 0 && value.name.starts_with(prefix) && value.name.size() > prefix.size()) {
        name = value.name.substr(prefix.size());
      }
      inner_[id] = values_.claim(name);
      function_.proto.add_input(inner_[id]);
    }
    // Scalars with equal contents are one value.
    for (const std::size_t k : input_scalars_) scalar_names_[first_.scalar_contents[k]] = inner_[first_.scalars[k]];
  }

  void copy_constants() {
    for (const ValueId id : first_.constants) copy_constant(id, content_of(*graph_.constant(id)));
    for (const std::size_t k : inner_scalars_) copy_constant(first_.scalars[k], first_.scalar_contents[k]);
  }

  void copy_constant(ValueId id, const std::string& content) {
    onnx::NodeProto& constant = *function_.proto.add_node();
    constant.set_op_type("Constant");
    constant.set_name(nodes_.claim("Constant"));
    onnx::AttributeProto& attribute = *constant.add_attribute();
    attribute.set_name("value");
    attribute.set_type(onnx::AttributeProto::TENSOR);
    *attribute.mutable_t() = proto_of(*graph_.constant(id));
    attribute.mutable_t()->clear_name();
    const std::string name = values_.claim("constant");
    constant.add_output(name);
    set_metadata(constant, keys::constant, graph_.value(id).initializer >= 0 ? "initializer" : "node");
    scalar_names_[content] = name;
  }

  std::string inner_name(ValueId id) {
    if (const auto found = inner_.find(id); found != inner_.end()) return found->second;
    if (const OnnxTensor* tensor = graph_.constant(id)) {
      if (const auto found = scalar_names_.find(content_of(*tensor)); found != scalar_names_.end()) {
        return inner_[id] = found->second;
      }
    }
    return inner_[id] = values_.claim("value");
  }

  void add_node(std::size_t position) {
    onnx::NodeProto inside = proto_of(node(first_, position));
    const std::string prefix = graph_.instances().scope_path(first_.instance) + "/";
    const bool named = inside.name().starts_with(prefix) && inside.name().size() > prefix.size();
    inside.set_name(nodes_.claim(named ? to_template(inside.name().substr(prefix.size()), module_of(first_))
                                       : inside.op_type()));
    const WorkNode& original = graph_.nodes()[first_.nodes[position]];
    for (std::size_t k = 0; k < original.writes.size(); ++k) {
      if (original.writes[k] >= 0)
        inner_[original.writes[k]] = values_.claim(inside.name() + "_output_" + std::to_string(k));
    }
    rename_values(inside, [&](const std::string& name) { return inner_name(graph_.find(name)); });
    rename_inner_values(inside, [&](const std::string& name) { return inner_body_name(name); });
    set_common_metadata(position, inside);
    *function_.proto.add_node() = std::move(inside);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      function_.calls[i].originals.push_back(node(*blocks_[i], position).message);
    }
  }

  // Returns the new name of a value of a body, which must differ from the names of the function's values.
  std::string inner_body_name(const std::string& name) {
    const auto [entry, is_new] = body_names_.try_emplace(name);
    if (is_new) entry->second = values_.claim(name);
    return entry->second;
  }

  // Sets the metadata of the function's node to the entries that all calls have in common.
  void set_common_metadata(std::size_t position, onnx::NodeProto& inside) {
    struct Entry {
      std::string_view key;
      std::string text;
      bool common = true;
    };
    std::vector<std::vector<Entry>> common;  // for the node, then for each node in its bodies
    const std::string& first_module = module_of(first_);
    for (const ModuleBlock* block : blocks_) {
      const std::string& module = module_of(*block);
      std::size_t at = 0;
      onnx_file::walk_nodes(node(*block, position), [&](const OnnxNode& each) {
        const onnx_file::OnnxProperties entries = each.metadata;
        if (block == blocks_.front()) {
          std::vector<Entry>& own = common.emplace_back();
          for (const auto& [key, value] : entries) own.push_back({key, to_template(value, first_module)});
          return;
        }
        for (Entry& entry : common[at]) {
          if (!entry.common) continue;
          const std::string_view value = onnx_file::find_property(entries, entry.key).value_or("");
          entry.common = to_template(value, module) == entry.text;
        }
        ++at;
      });
    }
    std::size_t at = 0;
    for_each_node(inside, [&](onnx::NodeProto& each) {
      each.clear_metadata_props();
      for (const Entry& entry : common[at]) {
        if (entry.common) set_metadata(each, entry.key, entry.text);
      }
      ++at;
    });
  }

  void import_domains() {
    std::set<std::string> domains;
    for (const onnx::NodeProto& each : function_.proto.node()) collect_domains(each, domains);
    for (const std::string& domain : domains) {
      onnx::OperatorSetIdProto& import = *function_.proto.add_opset_import();
      import.set_domain(domain);
      const std::int64_t version = graph_.parts().opset(domain);
      import.set_version(version < 0 ? 1 : version);
    }
  }

  // Adds the types that all calls share, also those of outputs: readers look up all types in one place.
  void add_types() {
    std::map<std::string, std::string> seen;
    for (std::size_t position = 0; position < first_.nodes.size(); ++position) {
      const auto& writes = graph_.nodes()[first_.nodes[position]].writes;
      for (std::size_t k = 0; k < writes.size(); ++k) {
        if (writes[k] < 0) continue;
        std::string_view common;
        bool same = true;
        for (const ModuleBlock* block : blocks_) {
          const ValueId id = graph_.nodes()[block->nodes[position]].writes[k];
          const auto type = types_.find(graph_.value(id).name);
          const std::string_view text = type == types_.end() ? "" : type->second;
          if (block == blocks_.front()) common = text;
          same &= !text.empty() && text == common;
        }
        if (!same) continue;
        onnx::ValueInfoProto& info = *function_.proto.add_value_info();
        info.set_name(inner_.at(writes[k]));
        *info.mutable_type() = type_proto(common);
      }
    }
  }

  void make_call(std::size_t i) {
    const ModuleBlock& block = *blocks_[i];
    onnx::NodeProto& call = function_.calls[i].node;
    call.set_op_type(function_.proto.name());
    call.set_domain(function_.proto.domain());
    for (const ValueId id : block.inputs) call.add_input(std::string(graph_.value(id).name));
    for (const std::size_t k : input_scalars_) call.add_input(std::string(graph_.value(block.scalars[k]).name));
    for (const BlockOutput& output : outputs_) call.add_output(std::string(graph_.value(value_of(block, output)).name));
    set_call_metadata(block, call);
  }

  // Writes the call's metadata in PyTorch's and whence's keys. PyTorch's lists end with the function as the operation.
  void set_call_metadata(const ModuleBlock& block, onnx::NodeProto& call) const {
    std::vector<std::string> paths, classes;
    std::string name_space, calls;
    bool repeated = false;
    for (CallIndex id = block.instance; id.exists(); id = graph_.instances()[id].parent) {
      const ModuleCall& instance = graph_.instances()[id];
      paths.insert(paths.begin(), instance.path);
      classes.insert(classes.begin(), instance.type);
      name_space.insert(0, "/" + instance.path + ": " + instance.type);
      calls.insert(0, "/" + std::to_string(instance.call));
      repeated |= id != block.instance && instance.call > 0;
    }
    const bool has_all_classes = std::ranges::none_of(classes, [](const std::string& each) { return each.empty(); });
    if (has_all_classes) {
      paths.push_back(call.op_type());
      classes.push_back(call.op_type());
      set_metadata(call, keys::name_space, name_space.substr(1) + "/" + call.op_type() + ": " + call.op_type());
      set_metadata(call, keys::class_hierarchy, origin::python_repr(classes));
      set_metadata(call, keys::name_scopes, origin::python_repr(paths));
    }
    if (!has_all_classes) set_metadata(call, keys::scopes, json_text(nlohmann::json(paths)));
    const ModuleCall& instance = graph_.instances()[block.instance];
    set_metadata(call, keys::module, instance.path);
    set_metadata(call, keys::call, std::to_string(instance.call));
    if (repeated) set_metadata(call, keys::calls, calls.substr(1));
    set_metadata(call, keys::confidence, std::string(origin::name_of(lowest_confidence(block))));
    set_metadata(call, keys::rule, "function");
  }

  // Returns the confidence of a call: that of its least certain node. An `ancestor` node does not lower it, because it
  // is certainly in the module.
  Confidence lowest_confidence(const ModuleBlock& block) const {
    Confidence lowest = Confidence::exact;
    for (const std::int32_t index : block.nodes) {
      const auto word = origin::parse_confidence(metadata_of(*graph_.nodes()[index].node, keys::confidence));
      if (word && *word != Confidence::ancestor) lowest = std::max(lowest, *word);
    }
    return lowest;
  }

  const WorkGraph& graph_;
  const std::vector<const ModuleBlock*>& blocks_;
  const TypeMessages& types_;
  const ModuleBlock& first_;
  CutFunction function_;
  std::vector<std::size_t> inner_scalars_, input_scalars_;  // indices of scalars
  std::vector<BlockOutput> outputs_;
  text::UniqueNames values_, nodes_;
  std::map<ValueId, std::string> inner_;  // names of values in the function
  std::map<std::string, std::string> scalar_names_, body_names_;
};

}  // namespace

CutFunction make_function(const WorkGraph& graph, const std::vector<const ModuleBlock*>& blocks,
                          const TypeMessages& types, const std::string& name) {
  return FunctionMaker(graph, blocks, types).make(name);
}

std::string function_name(const ModuleCall& instance) {
  std::string name = instance.type;
  if (name.empty()) {  // "encoder.layer.3" gives "layer"
    name = instance.path.empty() ? "model" : instance.path;
    while (!name.empty() && name.find_first_not_of("0123456789", name.rfind('.') + 1) == std::string::npos &&
           name.rfind('.') != std::string::npos) {
      name.resize(name.rfind('.'));
    }
  }
  name = name.substr(name.rfind('.') + 1);
  const std::string result = identifier(name);
  return result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0 ? "module_" + result : result;
}

std::string identifier(const std::string& text) {
  std::string result;
  for (const char c : text) result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return result;
}

std::string function_domain(const ModuleCall& instance) {
  const std::size_t dot = instance.type.rfind('.');
  if (dot == std::string::npos || dot == 0) return default_domain;
  const std::string domain = instance.type.substr(0, dot);
  return domain == "ai.onnx" ? default_domain : domain;  // an alias of the standard operators' domain
}

}  // namespace whence::functions
