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
#include "annotator/origin/keys.h"
#include "annotator/text/unique_names.h"

namespace whence::functions {

namespace keys = origin::keys;

namespace {

// Functions came with IR 8; metadata of nodes and functions, and types in functions, with IR 10.
constexpr std::int64_t oldest_ir = 10;

class Outliner {
 public:
  Outliner(ModelParts& parts, const FunctionChoice& options) : parts_(parts), options_(options) {
    for (const onnx::ValueInfoProto& value : parts.model.graph().value_info()) types_of_file_.push_back(value);
    for (const onnx::ValueInfoProto& value : types_of_file_) types_[value.name()] = &value;
    for (const onnx::FunctionProto& function : parts.model.functions()) {
      taken_.insert({function.domain(), function.name()});
    }
  }

  FunctionsReport run() {
    WorkGraph graph(parts_);
    for (const WorkNode& node : graph.nodes()) {
      report_.nodes_before += node.node.op_type() == "Constant" ? 0 : 1;
      if (!node.node.name().empty()) node_names_.claim(node.node.name());
    }
    const std::vector<InstanceId> calls = selected_calls(graph, options_);
    for (const std::vector<InstanceId>& round : rounds(graph.instances(), calls)) cut(graph, round);
    if (report_.functions.empty()) refuse_all();
    graph.put_back();
    for (onnx::FunctionProto& function : functions_) {
      parts_.import(function.domain(), 1);
      *parts_.model.add_functions() = std::move(function);
    }
    raise_ir_version();
    state_differences();
    count();
    return std::move(report_);
  }

 private:
  // Calls that hold no other chosen call first, then those that hold only such, and so on: equal blocks hold equal
  // ones, so they come in the same round.
  static std::vector<std::vector<InstanceId>> rounds(const Instances& instances, const std::vector<InstanceId>& calls) {
    std::map<InstanceId, std::size_t> heights;
    for (const InstanceId call : calls) heights[call] = 0;
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {  // children have greater numbers
      for (InstanceId outer = instances[*call].parent; outer != no_instance; outer = instances[outer].parent) {
        const auto found = heights.find(outer);
        if (found == heights.end()) continue;
        found->second = std::max(found->second, heights[*call] + 1);
        break;
      }
    }
    std::vector<std::vector<InstanceId>> result;
    for (const InstanceId call : calls) {
      result.resize(std::max(result.size(), heights[call] + 1));
      result[heights[call]].push_back(call);
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
      const Instance& instance = graph.instances()[cut.block.instance];
      const std::string type = function_domain(instance) + "." + function_name(instance);
      const auto [number, is_new] = numbers.try_emplace({type, cut.block.key}, groups.size());
      if (is_new) groups.emplace_back();
      groups[number->second].push_back(&cut);
    }
    return groups;
  }

  void cut(WorkGraph& graph, const std::vector<InstanceId>& calls) {
    const std::vector<Region> regions = regions_of(graph, calls);
    const std::vector<Cut> cuts = cuts_of(graph, regions);
    std::vector<WorkGraph::Replacement> replacements;
    for (const std::vector<const Cut*>& group : groups_of(graph, cuts)) {
      std::vector<const ModuleBlock*> members;
      for (const Cut* each : group) members.push_back(&each->block);
      CutFunction function = make_function(graph, members, types_, name_for(graph, *members.front()));
      for (std::size_t k = 0; k < members.size(); ++k) {
        CutCall& call = function.calls[k];
        call.node.set_name(node_names_.claim(slash_path(graph.instances(), call.instance)));
        originals_[call.node.name()] = std::move(call.originals);
        replacements.push_back({group[k]->region->nodes, call.node, graph.instances()[call.instance].parent});
      }
      report(graph, function);
      functions_.push_back(std::move(function.proto));
    }
    graph.replace(std::move(replacements));
  }

  // The first block of a class has its name; others are told apart by the module that they were cut from first. ONNX
  // has overloads for that, but ONNX Runtime (1.31) forgets the overload of a call within a function.
  std::string name_for(const WorkGraph& graph, const ModuleBlock& block) {
    const Instance& instance = graph.instances()[block.instance];
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
    const std::int64_t before = parts_.model.ir_version();
    if (before >= oldest_ir) return;
    onnx::StringStringEntryProto& entry = *parts_.model.add_metadata_props();
    entry.set_key(std::string(keys::ir_before));
    entry.set_value(std::to_string(before));
    parts_.model.set_ir_version(oldest_ir);
  }

  // What a call stands for, down to nodes that are not calls of ours.
  void collect_originals(const onnx::NodeProto& node, std::vector<const onnx::NodeProto*>& all) const {
    const auto call = originals_.find(node.name());
    if (call == originals_.end()) {
      for_each_node(node, [&](const onnx::NodeProto& each) { all.push_back(&each); });
      return;
    }
    for (const onnx::NodeProto& each : call->second) collect_originals(each, all);
  }

  void state_differences() {
    std::size_t next = 0;
    const auto by_call = nodes_by_call(parts_);
    for (onnx::NodeProto& node : *parts_.model.mutable_graph()->mutable_node()) {
      if (!originals_.contains(node.name())) continue;
      std::vector<const onnx::NodeProto*> from_functions, wanted;
      for (const onnx::NodeProto& leaf : by_call[next]) {
        for_each_node(leaf, [&](const onnx::NodeProto& each) { from_functions.push_back(&each); });
      }
      ++next;
      collect_originals(node, wanted);
      const std::string text = differences(from_functions, wanted);
      if (!text.empty()) set_metadata(node, keys::differs, text);
    }
  }

  void count() {
    const auto add = [&](const auto& nodes) {
      for (const onnx::NodeProto& node : nodes) report_.nodes_after += node.op_type() == "Constant" ? 0 : 1;
    };
    add(parts_.model.graph().node());
    for (const onnx::FunctionProto& function : parts_.model.functions()) add(function.node());
  }

  ModelParts& parts_;
  const FunctionChoice& options_;
  FunctionsReport report_;
  std::vector<onnx::ValueInfoProto> types_of_file_;
  std::map<std::string, const onnx::ValueInfoProto*> types_;
  std::set<std::pair<std::string, std::string>> taken_;  // domain and name of functions
  std::vector<onnx::FunctionProto> functions_;
  text::UniqueNames node_names_;
  std::map<std::string, std::vector<onnx::NodeProto>> originals_;  // by the name of the call
};

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
    if (graph_digest(check) != before) {
      throw Error(Code::internal, "the functions, written out again, do not give the graph of the file",
                  "please report this with the file", {.file = input.stands_for, .stage = "functions"});
    }
    write_model_parts(std::move(parts), output);
    return report;
  });
}

}  // namespace whence::functions
