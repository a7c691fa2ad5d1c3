#include "annotator/functions/outline.h"

#include <algorithm>
#include <map>
#include <set>

#include "annotator/functions/block.h"
#include "annotator/functions/call_text.h"
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

// Functions came with IR 8; metadata of nodes and functions, and types in functions, with IR 10.
constexpr std::int64_t oldest_ir = 10;

class Outliner {
 public:
  Outliner(ModelParts& parts, const FunctionChoice& options) : parts_(parts), options_(options) {
    for (const OnnxValue& value : parts.graph.value_info) types_[value.name] = value.type;
    take_names();
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
    state_differences();
    count();
    return std::move(report_);
  }

 private:
  // Calls that hold no other chosen call first, then those that hold only such, and so on: equal blocks hold equal
  // ones, so they come in the same round.
  static std::vector<std::vector<CallIndex>> rounds(const Instances& instances, const std::vector<CallIndex>& calls) {
    constexpr std::int32_t not_chosen = -1;
    IndexedVector<CallIndex, std::int32_t> heights(instances.size(), not_chosen);
    for (const CallIndex call : calls) heights[call] = 0;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {  // children have greater numbers
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
      if (!block.outputs.empty()) cuts.push_back({std::move(block), &region});  // else nothing reads what it computes
    }
    return cuts;
  }

  // Those of one class that are equal, in the order of the first of each.
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
      CutFunction function = make_function(graph, members, types_, name_for(graph, *members.front()));
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

  // Names that no function may get: those of the file's functions, and of the operators that its nodes use. The file
  // need not define these, as a runtime may know them; a function of the name would take their place, also in branches,
  // loops and the functions of others.
  void take_names() {
    std::set<std::pair<std::string_view, std::string_view>> operators;
    const auto take = [&](const OnnxNode& node) { operators.insert({node.domain, node.op_type}); };
    onnx_file::walk_nodes(parts_.graph.nodes, take);
    for (const OnnxFunction& function : parts_.functions) {
      taken_.emplace(function.domain, function.name);
      onnx_file::walk_nodes(function.nodes, take);
    }
    taken_.insert(operators.begin(), operators.end());
  }

  // The first block of a class has its name, unless that is taken; others are told apart by the module that they were
  // cut from first. ONNX has overloads for that, but ONNX Runtime (1.31) forgets the overload of a call within a
  // function.
  std::string name_for(const WorkGraph& graph, const ModuleBlock& block) {
    const ModuleCall& instance = graph.instances()[block.instance];
    const std::string name = function_name(instance), domain = function_domain(instance);
    std::string unique = name;
    for (int n = 1; !taken_.insert({domain, unique}).second; ++n) {
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
    Diagnostics all;
    for (const FunctionsReport::Refused& each : report_.refused) {
      all.push_back({Code::unsupported_feature,
                     Severity::error,
                     "the module is not a single part of the graph: " + each.reason,
                     {.file = parts_.path, .stage = "functions", .module = each.module, .has_module = true},
                     "choose the module around it, or those within it",
                     1,
                     {}});
    }
    throw Error(std::move(all));
  }

  void raise_ir_version() {
    const std::int64_t before = parts_.frame.ir_version();
    if (before >= oldest_ir) return;
    onnx::StringStringEntryProto& entry = *parts_.frame.add_metadata_props();
    entry.set_key(std::string(keys::ir_before));
    entry.set_value(std::to_string(before));
    parts_.frame.set_ir_version(oldest_ir);
  }

  // The metadata of what a call stands for, down to nodes that are not calls of ours.
  void collect_originals(const OnnxNode& node, std::vector<onnx_file::OnnxProperties>& all) const {
    const auto call = originals_.find(node.name);
    if (call == originals_.end()) {
      onnx_file::walk_nodes(node, [&](const OnnxNode& each) { all.push_back(each.metadata); });
      return;
    }
    for (const std::string_view message : call->second) {
      collect_originals(onnx_file::read_node(message, parts_.place()), all);
    }
  }

  void state_differences() {
    std::map<std::string_view, std::string> texts;  // by call
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
  std::set<std::pair<std::string, std::string>> taken_;  // domain and name of functions and operators
  std::vector<onnx::FunctionProto> functions_;
  text::UniqueNames node_names_;
  FlatMap<std::string, std::vector<std::string_view>> originals_;  // messages, by the name of the call
};

// Why the nodes of the file are no graph: a value that nothing makes, or two nodes. Empty when they are one.
std::string fault_of(const onnx_file::ModelSource& input) {
  ModelParts parts = read_model_parts(input);
  inline_calls(parts, /*all=*/false);
  const onnx_file::GraphIndex index(parts.graph);
  std::set<onnx_file::ValueId> made;
  const auto name_of = [&](onnx_file::ValueId id) { return "'" + std::string(index.values()[id].name) + "'"; };
  for (std::size_t node = 0; node < index.nodes().size(); ++node) {
    for (const onnx_file::ValueId id : index.writes(static_cast<std::int32_t>(node))) {
      if (id != onnx_file::no_value && !made.insert(id).second) return "two nodes make the value " + name_of(id);
    }
  }
  for (const onnx_file::GraphIndex::Read& read : index.reads()) {
    const onnx_file::GraphIndex::Value& value = index.values()[read.value];
    const bool has_source = value.producer >= 0 || value.initializer >= 0 || value.input || !value.outermost;
    if (!has_source) return "nothing makes the value " + name_of(read.value) + ", which a node reads";
  }
  return "";
}

// The functions, written out again, have to give what the file was. Where they do not, one of the two is wrong.
[[noreturn]] void report_difference(const onnx_file::ModelSource& input) {
  const Place place{.file = input.stands_for, .stage = "functions"};
  if (const std::string fault = fault_of(input); !fault.empty()) {
    throw Error(Code::corrupt_file, fault, "`whence validate --full` says what else is wrong; export the file again",
                place);
  }
  throw Error(Code::internal, "the functions, written out again, do not give the graph of the file",
              "please report this with the file", place);
}

}  // namespace

FunctionsReport outline(ModelParts& parts, const FunctionChoice& options) { return Outliner(parts, options).run(); }

Result<FunctionsReport> outline_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                     const FunctionChoice& options) {
  return guarded([&] {
    ModelParts parts = read_model_parts(input);
    inline_calls(parts, /*all=*/false);  // functions that were cut out before are cut anew
    const std::string before = graph_digest(parts);
    FunctionsReport report = outline(parts, options);
    ModelParts check = parts;
    inline_calls(check, /*all=*/false);
    if (graph_digest(check) != before) report_difference(input);
    write_model_parts(std::move(parts), output);
    return report;
  });
}

}  // namespace whence::functions
