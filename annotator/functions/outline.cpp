#include "annotator/functions/outline.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/functions/block.h"
#include "annotator/functions/call_metadata.h"
#include "annotator/functions/function_maker.h"
#include "annotator/functions/graph_digest.h"
#include "annotator/functions/inline_calls.h"
#include "annotator/functions/selection.h"
#include "annotator/onnx_file/graph_index.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/text/unique_names.h"
#include "schema/flat_map.h"

namespace whence::functions {

namespace keys = origin::keys;
using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;
using onnx_file::OnnxValue;

namespace {

// IR 8 introduced functions; IR 10 introduced metadata of nodes and functions, and types in functions.
constexpr std::int64_t min_ir_version = 10;

class Outliner {
 public:
  Outliner(ModelParts& parts, const FunctionChoice& options) : parts_(parts), options_(options) {
    for (const OnnxValue& value : parts.graph.value_info) types_[value.name] = value.type;
    reserve_names();
  }

  FunctionsReport run() {
    WorkGraph graph(parts_);
    for (const WorkNode& node : graph.nodes()) {
      report_.nodes_before += node.node->op_type == "Constant" ? 0 : 1;
      if (!node.node->name.empty()) node_names_.claim(std::string(node.node->name));
    }
    const std::vector<CallIndex> calls = selected_calls(graph, options_);
    for (const std::vector<CallIndex>& round : rounds(graph.instances(), calls)) cut(graph, round);
    if (report_.functions.empty()) refuse_all();
    graph.drop_unread();
    for (const onnx::FunctionProto& function : functions_) {
      parts_.import(function.domain(), 1);
      parts_.functions.push_back(parts_.function(function));
    }
    raise_ir_version();
    store_differences();
    count();
    return std::move(report_);
  }

 private:
  // Divides the calls into rounds: first calls that contain no other chosen call, then calls that contain only calls of
  // earlier rounds. Equal blocks contain equal blocks, so they are in the same round.
  static std::vector<std::vector<CallIndex>> rounds(const Instances& instances, const std::vector<CallIndex>& calls) {
    constexpr std::int32_t not_chosen = -1;
    IndexedVector<CallIndex, std::int32_t> heights(instances.size(), not_chosen);
    for (const CallIndex call : calls) heights[call] = 0;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {  // children come after their parents
      for (CallIndex outer = instances[*call].parent; outer.exists(); outer = instances[outer].parent) {
        if (heights[outer] == not_chosen) continue;
        heights[outer] = std::max(heights[outer], heights[*call] + 1);
        break;
      }
    }
    std::vector<std::vector<CallIndex>> result;
    for (const CallIndex call : calls) {
      const auto height = static_cast<std::size_t>(heights[call]);
      result.resize(std::max(result.size(), height + 1));
      result[height].push_back(call);
    }
    return result;
  }

  struct Cut {
    ModuleBlock block;
    const Region* region = nullptr;
  };

  std::vector<Cut> cuts_of(const WorkGraph& graph, const std::vector<Region>& regions) {
    std::vector<Cut> cuts;
    for (const Region& region : regions) {
      if (!region.refusal.empty()) {
        report_.refused.push_back({graph.instances()[region.instance].path, region.refusal});
        continue;
      }
      ModuleBlock block = block_of(graph, region);
      if (!block.outputs.empty()) cuts.push_back({std::move(block), &region});  // else nothing reads its results
    }
    return cuts;
  }

  // Groups equal cuts of one class, in the order of each group's first cut.
  static std::vector<std::vector<const Cut*>> groups_of(const WorkGraph& graph, const std::vector<Cut>& cuts) {
    std::map<std::pair<std::string, std::string>, std::size_t> numbers;
    std::vector<std::vector<const Cut*>> groups;
    for (const Cut& cut : cuts) {
      const ModuleCall& instance = graph.instances()[cut.block.instance];
      const std::string type = function_domain(instance) + "." + function_name(instance);
      const auto [number, is_new] = numbers.try_emplace({type, cut.block.key}, groups.size());
      if (is_new) groups.emplace_back();
      groups[number->second].push_back(&cut);
    }
    return groups;
  }

  void cut(WorkGraph& graph, const std::vector<CallIndex>& calls) {
    const std::vector<Region> regions = regions_of(graph, calls);
    const std::vector<Cut> cuts = cuts_of(graph, regions);
    std::vector<WorkGraph::Replacement> replacements;
    for (const std::vector<const Cut*>& group : groups_of(graph, cuts)) {
      std::vector<const ModuleBlock*> members;
      for (const Cut* each : group) members.push_back(&each->block);
      CutFunction function = make_function(graph, members, types_, unique_function_name(graph, *members.front()));
      for (std::size_t k = 0; k < members.size(); ++k) {
        CutCall& call = function.calls[k];
        call.node.set_name(node_names_.claim(graph.instances().scope_path(call.instance)));
        originals_[call.node.name()] = std::move(call.originals);
        replacements.push_back({group[k]->region->nodes, call.node, graph.instances()[call.instance].parent});
      }
      report(graph, function);
      functions_.push_back(std::move(function.proto));
    }
    graph.replace(replacements);
  }

  // Reserves names that no new function may get: those of the file's functions, and of the operators that nodes use,
  // also in branches, loops and functions. A runtime may define these operators; a function of the same name would
  // replace them.
  void reserve_names() {
    std::set<std::pair<std::string_view, std::string_view>> operators;
    const auto add_operator = [&](const OnnxNode& node) { operators.insert({node.domain, node.op_type}); };
    onnx_file::walk_nodes(parts_.graph.nodes, add_operator);
    for (const OnnxFunction& function : parts_.functions) {
      reserved_names_.emplace(function.domain, function.name);
      onnx_file::walk_nodes(function.nodes, add_operator);
    }
    reserved_names_.insert(operators.begin(), operators.end());
  }

  // Returns a unique name: for the first block of a class the name of the class, unless that is reserved; for others
  // the name with the module of their first call. Does not use ONNX's overloads, because ONNX Runtime (1.31) forgets
  // the overload of a call within a function.
  std::string unique_function_name(const WorkGraph& graph, const ModuleBlock& block) {
    const ModuleCall& instance = graph.instances()[block.instance];
    const std::string name = function_name(instance), domain = function_domain(instance);
    std::string unique = name;
    for (int n = 1; !reserved_names_.insert({domain, unique}).second; ++n) {
      unique = name + "_" + identifier(instance.path) + (n > 1 ? "_" + std::to_string(n) : "");
    }
    return unique;
  }

  void report(const WorkGraph& graph, const CutFunction& function) {
    FunctionsReport::Function& entry = report_.functions.emplace_back();
    entry.name = function.proto.name();
    entry.calls = static_cast<std::int64_t>(function.calls.size());
    for (const CutCall& call : function.calls) entry.modules.push_back(graph.instances()[call.instance].path);
    for (const onnx::NodeProto& node : function.proto.node()) entry.nodes += node.op_type() == "Constant" ? 0 : 1;
  }

  [[noreturn]] void refuse_all() const {
    if (report_.refused.empty()) {
      throw Error(Code::usage, "none of the chosen modules has a node of its own in the file",
                  "`whence show` lists nodes by module", {.file = parts_.path, .stage = "functions"});
    }
    Diagnostics errors;
    for (const FunctionsReport::Refused& each : report_.refused) {
      errors.push_back({Code::unsupported_feature,
                        Severity::error,
                        "the module is not a contiguous part of the graph: " + each.reason,
                        {.file = parts_.path, .stage = "functions", .module = each.module, .has_module = true},
                        "choose the enclosing module, or modules inside it",
                        1,
                        {}});
    }
    throw Error(std::move(errors));
  }

  void raise_ir_version() {
    const std::int64_t original_version = parts_.frame.ir_version();
    if (original_version >= min_ir_version) return;
    onnx::StringStringEntryProto& entry = *parts_.frame.add_metadata_props();
    entry.set_key(std::string(keys::ir_before));
    entry.set_value(std::to_string(original_version));
    parts_.frame.set_ir_version(min_ir_version);
  }

  // Collects the metadata of the nodes that a call replaces; calls among them are expanded in turn.
  void collect_originals(const OnnxNode& node, std::vector<onnx_file::OnnxProperties>& metadata) const {
    const auto call = originals_.find(node.name);
    if (call == originals_.end()) {
      onnx_file::walk_nodes(node, [&](const OnnxNode& each) { metadata.push_back(each.metadata); });
      return;
    }
    for (const std::string_view message : call->second) {
      collect_originals(onnx_file::read_node(message, parts_.place()), metadata);
    }
  }

  void store_differences() {
    std::map<std::string_view, std::string> texts;  // by name of the call
    for_each_call(parts_, [&](const OnnxNode& call, const std::vector<FunctionNode>& from_functions) {
      if (!originals_.contains(call.name)) return;
      std::vector<onnx_file::OnnxProperties> originals;
      collect_originals(call, originals);
      std::string text = differences(from_functions, originals);
      if (!text.empty()) texts.emplace(call.name, std::move(text));
    });
    for (OnnxNode& node : parts_.graph.nodes) {
      const auto text = texts.find(node.name);
      if (text == texts.end()) continue;
      onnx::NodeProto call = proto_of(node);
      set_metadata(call, keys::differs, text->second);
      node = parts_.node(call);
    }
  }

  void count() {
    const auto add = [&](const std::vector<OnnxNode>& nodes) {
      for (const OnnxNode& node : nodes) report_.nodes_after += node.op_type == "Constant" ? 0 : 1;
    };
    add(parts_.graph.nodes);
    for (const OnnxFunction& function : parts_.functions) add(function.nodes);
  }

  ModelParts& parts_;
  const FunctionChoice& options_;
  FunctionsReport report_;
  TypeMessages types_;
  std::set<std::pair<std::string, std::string>> reserved_names_;  // domains and names of functions and operators
  std::vector<onnx::FunctionProto> functions_;
  text::UniqueNames node_names_;
  FlatMap<std::string, std::vector<std::string_view>> originals_;  // messages, by name of the call
};

// Returns why the file's nodes form no graph: a value has no producer, or two. Returns an empty text if they form one.
std::string graph_fault(const onnx_file::ModelSource& input) {
  ModelParts parts = read_model_parts(input);
  inline_calls(parts, /*all=*/false);
  const onnx_file::GraphIndex index(parts.graph);
  std::set<onnx_file::ValueId> produced;
  const auto name_of = [&](onnx_file::ValueId id) { return "'" + std::string(index.values()[id].name) + "'"; };
  for (std::size_t node = 0; node < index.nodes().size(); ++node) {
    for (const onnx_file::ValueId id : index.writes(static_cast<std::int32_t>(node))) {
      if (id != onnx_file::no_value && !produced.insert(id).second) return "two nodes produce the value " + name_of(id);
    }
  }
  for (const onnx_file::GraphIndex::Read& read : index.reads()) {
    const onnx_file::GraphIndex::Value& value = index.values()[read.value];
    const bool has_source = value.producer >= 0 || value.initializer >= 0 || value.input || !value.outermost;
    if (!has_source) return "a node reads the value " + name_of(read.value) + ", which has no producer";
  }
  return "";
}

// Reports that inlining the new functions does not give the graph of the file: either the file or whence is wrong.
[[noreturn]] void report_difference(const onnx_file::ModelSource& input) {
  const Place place{.file = input.stands_for, .stage = "functions"};
  if (const std::string fault = graph_fault(input); !fault.empty()) {
    throw Error(Code::corrupt_file, fault, "`whence validate --full` lists all defects; export the file again", place);
  }
  throw Error(Code::internal, "inlining the new functions does not give the graph of the file",
              "please report this with the file", place);
}

}  // namespace

FunctionsReport outline(ModelParts& parts, const FunctionChoice& options) { return Outliner(parts, options).run(); }

Result<FunctionsReport> outline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                     const FunctionChoice& options) {
  return guarded([&] {
    ModelParts parts = read_model_parts(input);
    inline_calls(parts, /*all=*/false);  // functions of an earlier run are made again
    const std::string expected = graph_digest(parts);
    FunctionsReport report = outline(parts, options);
    ModelParts check = parts;
    inline_calls(check, /*all=*/false);
    if (graph_digest(check) != expected) report_difference(input);
    write_model_parts(std::move(parts), output);
    return report;
  });
}

}  // namespace whence::functions
