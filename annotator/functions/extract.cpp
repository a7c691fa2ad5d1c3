// Extracts a module call, or calls of several modules, as a model.
#include <algorithm>
#include <map>
#include <set>

#include "annotator/functions/inline_calls.h"
#include "annotator/functions/named_sizes.h"
#include "annotator/functions/node_values.h"
#include "annotator/functions/outline_file.h"
#include "annotator/functions/region.h"
#include "annotator/functions/unclear_parts.h"
#include "annotator/functions/value_types.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/origin/confidence.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/text/patterns.h"
#include "schema/dtype.h"
#include "schema/module_path.h"
#include "schema/nearest_names.h"
#include "schema/sort_unique.h"

namespace whence::functions {

namespace {

// The calls that one call of a module consists of: the call itself, or for a container that is never called, such as a
// ModuleList, the calls of its modules within one call of the enclosing module.
struct CallParts {
  std::vector<CallIndex> parts;
  CallIndex enclosing;
};

// Returns the modules that names and globs select, without modules below other selected ones. Keeps patterns without
// a match, because they may name containers that are never called.
std::vector<std::string> selected_modules(const Instances& instances, const ExtractOptions& options) {
  if (options.modules.empty()) return {options.module};
  std::vector<std::string> chosen;
  const text::Patterns patterns = text::Patterns::of_paths(options.modules);
  std::set<std::size_t> unmatched;
  for (std::size_t i = 0; i < options.modules.size(); ++i) unmatched.insert(i);
  for (const ModuleCall& call : instances) {
    const std::vector<std::size_t> matching = patterns.matching(call.path);
    for (const std::size_t pattern : matching) unmatched.erase(pattern);
    if (!matching.empty()) chosen.push_back(call.path);
  }
  for (const std::size_t pattern : unmatched) chosen.push_back(options.modules[pattern]);
  sort_unique(chosen);
  std::vector<std::string> outermost;
  for (const std::string& module : chosen) {
    const bool inside = std::ranges::any_of(
        chosen, [&](const std::string& other) { return other != module && at_or_below(module, other); });
    if (!inside) outermost.push_back(module);
  }
  return outermost;
}

class CallFinder {
 public:
  CallFinder(const WorkGraph& graph, const std::string& module) : instances_(graph.instances()), module_(module) {
    for (const CallIndex id : instances_.keys()) {
      const ModuleCall& instance = instances_[id];
      paths_.insert(instance.path);
      if (instance.path == module) {
        own_calls_[instance.call].parts.push_back(id);
        own_calls_[instance.call].enclosing = id;
      } else if (!module.empty() && at_or_below(instance.path, module) && !is_parent_in_module(instance.parent)) {
        contained_calls_[instance.parent].push_back(id);
      }
    }
  }

  // Returns the module's calls with their numbers, ascending.
  std::vector<std::pair<int, CallParts>> calls() const {
    if (!own_calls_.empty()) return {own_calls_.begin(), own_calls_.end()};
    std::vector<std::pair<int, CallParts>> calls;
    for (const auto& [enclosing, parts] : contained_calls_)
      calls.emplace_back(static_cast<int>(calls.size()), CallParts{parts, enclosing});
    return calls;
  }
  const std::set<std::string>& paths() const { return paths_; }

 private:
  bool is_parent_in_module(CallIndex parent) const {
    return parent.exists() && at_or_below(instances_[parent].path, module_);
  }

  const Instances& instances_;
  const std::string& module_;
  std::map<int, CallParts> own_calls_;
  std::map<CallIndex, std::vector<CallIndex>> contained_calls_;
  std::set<std::string> paths_;
};

// Returns true if one of the nodes belongs to a call that the options may select.
bool any_in_module(const std::vector<const onnx_file::OnnxNode*>& nodes, const ExtractOptions& options) {
  const Instances instances(nodes);
  const std::vector<std::string> chosen = options.modules.empty() ? std::vector{options.module} : options.modules;
  const text::Patterns patterns = text::Patterns::of_paths(chosen);
  return std::ranges::any_of(instances, [&](const ModuleCall& each) {
    if (options.call && each.call != *options.call) return false;
    const auto is_in_module = [&](const std::string& module) { return at_or_below(each.path, module); };
    return patterns.match(each.path) || std::ranges::any_of(chosen, is_in_module);
  });
}

bool body_has_module(const onnx_file::OnnxGraph& body, const ExtractOptions& options) {
  std::vector<const onnx_file::OnnxNode*> nodes;
  onnx_file::walk_nodes(body.nodes, [&](const onnx_file::OnnxNode& each) { nodes.push_back(&each); });
  return any_in_module(nodes, options);
}

// Replaces the model's graph with a body. Outer values that the body reads become inputs, except weights.
void open_body(onnx_file::OnnxGraph& graph, const onnx_file::OnnxGraph& body) {
  onnx_file::OnnxGraph opened = body;
  opened.initializers.insert(opened.initializers.end(), graph.initializers.begin(), graph.initializers.end());
  opened.value_info = graph.value_info;
  opened.inputs.insert(opened.inputs.end(), graph.inputs.begin(), graph.inputs.end());
  for (const onnx_file::OnnxNode& node : graph.nodes) {
    for (const std::string_view output : node.outputs) {
      if (output.empty()) continue;
      opened.inputs.emplace_back();
      opened.inputs.back().name = output;
    }
  }
  graph = std::move(opened);
}

// If all nodes of the module are in bodies of If, Loop or Scan, opens the first body that has some, and nested bodies
// in the same way.
ModelParts& open_bodies_of_module(ModelParts& parts, const ExtractOptions& options) {
  while (true) {
    std::vector<const onnx_file::OnnxNode*> nodes;
    for (const onnx_file::OnnxNode& node : parts.graph.nodes) nodes.push_back(&node);
    if (any_in_module(nodes, options)) return parts;
    const onnx_file::OnnxGraph* found = nullptr;
    for (const onnx_file::OnnxNode* node : nodes) {
      for (const onnx_file::OnnxGraph& body : node->subgraphs) {
        if (found == nullptr && body_has_module(body, options)) found = &body;
      }
    }
    if (found == nullptr) return parts;
    open_body(parts.graph, *found);
  }
}

[[noreturn]] void throw_unknown(const WorkGraph& graph, const std::string& module, const std::set<std::string>& paths,
                                const Place& place) {
  if (const UnclearParts parts = unclear_parts(graph, module, {}, {}); !parts.fused.empty()) {
    throw Error(Code::unsupported_feature,
                module + " has no node of its own: it is a part of " + parts.fused.front() +
                    ", which also belongs to other modules",
                "extract the enclosing module", place);
  }
  throw Error(Code::unknown_node, "no node of the file is in the module '" + module + "'",
              nearest_remedy(module, {paths.begin(), paths.end()}, "`whence annotate` the file first"), place);
}

std::string count_and_example(const std::vector<std::string>& nodes, const std::string& what) {
  return std::to_string(nodes.size()) + (nodes.size() == 1 ? " node " : " nodes ") + what + ", " +
         (nodes.size() == 1 ? "" : "for example ") + nodes.front();
}

// Returns the error that nodes of the module may be missing or shared. With --partial it becomes a warning.
Diagnostic incomplete_module(const UnclearParts& parts, const Place& place) {
  if (!parts.of_several_calls.empty()) {
    return {
        Code::unsupported_feature,
        Severity::error,
        "the file does not number the calls of the module, and there seem to be several: " +
            count_and_example(parts.of_several_calls,
                              parts.of_several_calls.size() == 1 ? "indicates this" : "indicate this"),
        place,
        "annotate the file with the model's sidecar, which numbers calls, or extract all calls together with --partial",
        1,
        {}};
  }
  std::string message = "the known nodes may not be the complete module: ";
  if (!parts.fused.empty()) {
    message += count_and_example(parts.fused, parts.fused.size() == 1 ? "belongs to it and to other modules"
                                                                      : "belong to it and to other modules");
  }
  if (!parts.undecided.empty()) {
    message += (parts.fused.empty() ? "" : "; ") + count_and_example(parts.undecided, "next to it may belong to it");
  }
  return {Code::unsupported_feature,
          Severity::error,
          message,
          place,
          "extract the enclosing module, annotate the file with the model's sidecar if that was not done, or extract "
          "only the known nodes with --partial",
          1,
          {}};
}

class Extractor {
 public:
  Extractor(ModelParts& parts, const ExtractOptions& options, Diagnostics& notes)
      : parts_(parts),
        types_(value_types(parts)),
        sizes_(parts),
        graph_(open_bodies_of_module(parts, options)),
        place_{.file = parts.path, .stage = "extract"} {
    const std::vector<std::string> modules = selected_modules(graph_.instances(), options);
    for (const std::string& module : modules) place_.module += (place_.module.empty() ? "" : ", ") + module;
    place_.has_module = true;
    CallParts chosen;
    std::vector<std::vector<CallIndex>> calls_of_modules;
    for (const std::string& module : modules) {
      const CallParts call = choose(module, options.call);
      chosen.enclosing =
          calls_of_modules.empty() ? call.enclosing : graph_.instances().common(chosen.enclosing, call.enclosing);
      chosen.parts.insert(chosen.parts.end(), call.parts.begin(), call.parts.end());
      calls_of_modules.push_back(call.parts);
    }
    region_ = joined_region(graph_, chosen.parts, chosen.enclosing);
    if (!region_.refusal.empty()) {
      throw Error(Code::unsupported_feature, "the module is not a contiguous part of the graph: " + region_.refusal,
                  "extract the enclosing module", place_);
    }
    note_inferred_nodes(notes);
    for (std::size_t i = 0; i < modules.size(); ++i) {
      require_complete(unclear_parts(graph_, modules[i], calls_of_modules[i], region_), options, notes);
    }
  }

  ExtractReport run() {
    add_constant_producers();
    const std::set<std::int32_t> inside(region_.nodes.begin(), region_.nodes.end());
    onnx::GraphProto interface;
    interface.set_name(place_.module.empty() ? "root" : place_.module);
    std::set<std::string_view> weights, inputs;
    std::vector<onnx_file::OnnxNode> nodes;
    for (const std::int32_t index : region_.nodes) {
      const WorkNode& node = graph_.nodes()[index];
      for (const ValueId id : node.reads) {
        const WorkValue& value = graph_.value(id);
        if (value.initializer >= 0) {
          weights.insert(value.name);
        } else if (!inside.contains(value.producer) && inputs.insert(value.name).second) {
          *interface.add_input() = typed_value(value.name, "input");
        }
      }
      nodes.push_back(*node.node);
    }
    add_outputs(inside, /*constants=*/false, interface);
    if (interface.output_size() == 0) add_outputs(inside, /*constants=*/true, interface);
    std::erase_if(parts_.graph.initializers, [&](const auto& tensor) { return !weights.contains(tensor.name); });
    std::erase_if(parts_.graph.value_info, [&](const auto& value) { return !weights.contains(value.name); });
    parts_.graph.nodes = std::move(nodes);
    parts_.frame.mutable_graph()->Swap(&interface);
    return report();
  }

 private:
  void require_complete(const UnclearParts& unclear, const ExtractOptions& options, Diagnostics& notes) const {
    if (unclear.empty()) return;
    Diagnostic problem = incomplete_module(unclear, place_);
    if (!options.partial) throw Error(Diagnostics{std::move(problem)});
    problem.severity = Severity::warning;
    problem.remedy.clear();
    notes.push_back(std::move(problem));
  }

  void note_inferred_nodes(Diagnostics& notes) const {
    const auto inferred = std::ranges::count_if(region_.nodes, [&](std::int32_t index) {
      return metadata_of(*graph_.nodes()[index].node, origin::keys::confidence) ==
             origin::name_of(origin::Confidence::inferred);
    });
    if (inferred == 0) return;
    notes.push_back(
        note(Code::unsupported_feature,
             std::to_string(inferred) + " of its " + std::to_string(region_.nodes.size()) +
                 " nodes are only inferred to belong to the module: some may not, and others may be missing",
             place_));
  }

  CallParts choose(const std::string& module, const std::optional<int>& requested_call) {
    const CallFinder finder(graph_, module);
    const auto calls = finder.calls();
    if (calls.empty()) throw_unknown(graph_, module, finder.paths(), {.file = parts_.path, .stage = "extract"});
    call_ = requested_call.value_or(calls.front().first);
    calls_.clear();
    for (const auto& [number, call] : calls) calls_.push_back(number);
    const auto found = std::ranges::find(calls, call_, [](const auto& each) { return each.first; });
    if (found != calls.end()) return found->second;
    throw Error(Code::unknown_node,
                (module.empty() ? "the root" : module) + " has no call " + std::to_string(call_) + " in the file",
                calls.size() == 1
                    ? "its only call is " + std::to_string(calls_.front())
                    : "its calls are " + std::to_string(calls_.front()) + " to " + std::to_string(calls_.back()),
                {.file = parts_.path, .stage = "extract"});
  }

  // Adds an output for each of the region's values that is needed outside. Values computed only from constants are
  // shared weights, not results: they become outputs only with `constants`, which run() sets if there are no other
  // outputs.
  void add_outputs(const std::set<std::int32_t>& inside, bool constants, onnx::GraphProto& graph) const {
    const auto within = [&](std::int32_t reader) { return inside.contains(reader); };
    for (const std::int32_t index : region_.nodes) {
      if (!constants && is_constant_[index] != 0) continue;
      for (const ValueId id : graph_.nodes()[index].writes) {
        if (id >= 0 && graph_.needed_outside(id, within))
          *graph.add_output() = typed_value(graph_.value(id).name, "output");
      }
    }
  }

  // Adds the nodes that compute inputs of the region only from constants: such values do not depend on the model's
  // inputs, so they are not inputs of the module.
  void add_constant_producers() {
    std::set<std::int32_t> inside(region_.nodes.begin(), region_.nodes.end());
    std::vector<std::int32_t> pending = region_.nodes;
    while (!pending.empty()) {
      const std::int32_t node = pending.back();
      pending.pop_back();
      for (const ValueId id : graph_.nodes()[node].reads) {
        const std::int32_t producer = graph_.value(id).producer;
        if (producer < 0 || is_constant_[producer] == 0 || !inside.insert(producer).second) continue;
        pending.push_back(producer);
        ++region_.taken_along;
      }
    }
    region_.nodes.assign(inside.begin(), inside.end());
  }

  onnx::ValueInfoProto typed_value(std::string_view value_name, const char* what) const {
    const std::string name(value_name);
    const auto type = types_.find(name);
    if (type == types_.end()) {
      throw Error(Code::unsupported_feature, std::string("the type of the ") + what + " '" + name + "' is unknown",
                  "add it to the file's value_info, for example with onnx.shape_inference", place_);
    }
    onnx::ValueInfoProto value;
    value.set_name(name);
    *value.mutable_type() = *type->second;
    sizes_.fill_in(name, *value.mutable_type());
    return value;
  }

  ExtractReport report() const {
    ExtractReport report;
    const onnx::GraphProto& graph = parts_.frame.graph();
    for (const onnx::ValueInfoProto& value : graph.input()) report.inputs.push_back(value_text(value));
    for (const onnx::ValueInfoProto& value : graph.output()) report.outputs.push_back(value_text(value));
    onnx_file::walk_nodes(parts_.graph.nodes, [&](const onnx_file::OnnxNode&) { ++report.nodes; });
    report.weights = static_cast<std::int64_t>(parts_.graph.initializers.size());
    report.taken_along = region_.taken_along;
    report.call = call_;
    report.calls = calls_;
    return report;
  }

  static std::string value_text(const onnx::ValueInfoProto& value) {
    const onnx::TypeProto::Tensor& type = value.type().tensor_type();
    std::string text = value.name() + " " + std::string(name_of(from_onnx(type.elem_type())));
    if (!type.has_shape()) return text;
    std::string sizes;
    for (const auto& dim : type.shape().dim()) {
      sizes += sizes.empty() ? "" : ",";
      sizes += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.has_dim_param() ? dim.dim_param() : "?";
    }
    return text + "[" + sizes + "]";
  }

  ModelParts& parts_;
  const ValueTypes types_;
  const NamedSizes sizes_;
  WorkGraph graph_;
  Place place_;
  Region region_;
  int call_ = 0;
  std::vector<int> calls_;  // the module's call numbers in the file
  const std::vector<char> is_constant_ = graph_.constant_nodes();
};

}  // namespace

Result<ExtractReport> extract_file(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                   const ExtractOptions& options) {
  Diagnostics notes;
  auto result = guarded([&] {
    ModelParts parts = read_model_parts(input);
    inline_calls(parts, /*all=*/false);
    const ExtractReport report = Extractor(parts, options, notes).run();
    write_model_parts(std::move(parts), output);
    return report;
  });
  return result ? Result<ExtractReport>(*result, std::move(notes)) : result;
}

}  // namespace whence::functions
