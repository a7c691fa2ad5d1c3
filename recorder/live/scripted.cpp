// Enters scripted functions and modules that traced code calls. The trace contains only the call, so the operations are
// read from the callee's graph.
#include "recorder/live/trace.h"
#include "recorder/program/structure.h"
#include "whence/diagnostics.h"

namespace whence::recorder::live {

namespace jit = torch::jit;

namespace {

[[noreturn]] void refuse_scripted(const std::string& what) {
  throw Error(Code::unsupported_feature, "traced code calls scripted code, and " + what,
              "save the traced module and record the archive: whence record model.pt -o model.whence.json",
              {.stage = "record"});
}

}  // namespace

// Reads one scripted function.
class LiveTrace::Scripted {
 public:
  // `path` is the path of the module that the method belongs to; "" for a function.
  Scripted(LiveTrace& trace, const std::string& path) : trace_(trace), path_(path) {}

  program::Term run(jit::Function& function, std::vector<program::Term> arguments);

 private:
  void block(const jit::Block& block);
  program::Term attribute(const jit::Node& node);
  program::Term method(const jit::Node& node);
  void branch(const jit::Node& node);
  std::vector<program::Term> arguments_of(const jit::Node& node);

  LiveTrace& trace_;
  std::string path_;
  Env env_;
  std::unordered_map<const jit::Value*, std::string> modules_;
};

void LiveTrace::call_scripted(const jit::Node& node) {
  std::vector<program::Term> arguments;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) arguments.push_back(term_of(node.inputs()[i], env_));
  const std::size_t first = operations_.size();
  std::string path;
  jit::Function* function = nullptr;
  if (node.kind() == c10::prim::CallMethod) {
    const auto module = attribute_of_.find(node.inputs()[0]);
    function = program::called_method(node);
    if (module == attribute_of_.end() || function == nullptr)
      refuse_scripted("its module is not part of the traced one");
    path = module->second;
  } else {
    function = program::called_function(node);
    if (function == nullptr) refuse_scripted("it has no TorchScript code");
  }
  program::Term& result = env_[node.output()];
  result = Scripted(*this, path).run(*function, std::move(arguments));
  if (const auto source = node.sourceRange().source()) scripted_results_[source.get()] = result;
  // The trace has the result's dtype and shape; the scripted graph may not.
  if (result.is_value() && first < operations_.size()) {
    values_[result.id].type = program::declared_type(node.output()->type());
  }
}

program::Term LiveTrace::Scripted::run(jit::Function& function, std::vector<program::Term> arguments) {
  const jit::Graph& graph = *jit::toGraphFunction(function).graph();
  std::size_t argument = 0;
  for (const jit::Value* input : graph.inputs()) {
    const auto type = input->type()->cast<c10::ClassType>();
    if (input == graph.inputs()[0] && type && type->is_module()) {
      modules_[input] = path_;
      continue;
    }
    env_[input] = argument < arguments.size() ? arguments[argument] : program::Term();
    ++argument;
  }
  // Overloads are named "forward__0". Functions that are not methods have no graph input for a module.
  const bool scope = !modules_.empty() && function.name().starts_with("forward");
  if (scope) {
    trace_.calls_.push_back({trace_.open_.back().call, "__module" + (path_.empty() ? "" : "." + path_)});
    trace_.open_.push_back({trace_.cursor_, static_cast<std::int32_t>(trace_.calls_.size() - 1)});
  }
  block(*graph.block());
  if (scope) trace_.open_.pop_back();
  return graph.outputs().empty() ? program::Term() : trace_.term_of(graph.outputs()[0], env_);
}

void LiveTrace::Scripted::block(const jit::Block& block) {
  for (const jit::Node* each : block.nodes()) {
    switch (each->kind()) {
      case c10::prim::GetAttr:
        if (const program::Term tensor = attribute(*each); !modules_.contains(each->output()))
          env_[each->output()] = tensor;
        break;
      case c10::prim::CallMethod:
        env_[each->output()] = method(*each);
        break;
      case c10::prim::CallFunction: {
        jit::Function* function = program::called_function(*each);
        if (function == nullptr) refuse_scripted("it calls a function without TorchScript code");
        env_[each->output()] = Scripted(trace_, "").run(*function, arguments_of(*each));
        break;
      }
      case c10::prim::If:
        branch(*each);
        break;
      case c10::prim::Loop:
        refuse_scripted("it loops");
      case c10::prim::RaiseException:
      case c10::aten::warn:
        break;
      case c10::aten::__is__:
      case c10::aten::__isnot__: {
        const auto same =
            program::same_object(trace_.term_of(each->inputs()[0], env_), trace_.term_of(each->inputs()[1], env_));
        env_[each->output()] = program::Term::literal(same.value_or(false) == (each->kind() == c10::aten::__is__));
        break;
      }
      default:
        if (!trace_.read_structure(*each, env_)) trace_.keep(trace_.read_operation(*each, env_, true), *each, true);
    }
  }
}

// Returns the tensor that is read. If the attribute is a module, notes its path and returns an empty term.
program::Term LiveTrace::Scripted::attribute(const jit::Node& node) {
  const auto owner = modules_.find(node.input());
  if (owner == modules_.end()) refuse_scripted("it reads an attribute of something that is not a module");
  const std::string name = (owner->second.empty() ? "" : owner->second + ".") + node.s(c10::attr::name);
  if (trace_.module_types_.contains(name)) {
    modules_[node.output()] = name;
    return {};
  }
  const program::Term* tensor = trace_.tensor_named(name);
  return tensor == nullptr ? program::Term() : *tensor;
}

program::Term LiveTrace::Scripted::method(const jit::Node& node) {
  const auto owner = modules_.find(node.inputs()[0]);
  jit::Function* function = program::called_method(node);
  if (owner == modules_.end() || function == nullptr) refuse_scripted("it calls a custom class");
  return Scripted(trace_, owner->second).run(*function, arguments_of(node));
}

std::vector<program::Term> LiveTrace::Scripted::arguments_of(const jit::Node& node) {
  std::vector<program::Term> arguments;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) {
    arguments.push_back(trace_.term_of(node.inputs()[i], env_));
  }
  return arguments;
}

void LiveTrace::Scripted::branch(const jit::Node& node) {
  const auto condition = trace_.term_of(node.input(), env_).settled();
  if (!condition || !condition->isBool()) refuse_scripted("it branches on data");
  const jit::Block& taken_block = *node.blocks()[condition->toBool() ? 0 : 1];
  block(taken_block);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    env_[node.outputs()[i]] = trace_.term_of(taken_block.outputs()[i], env_);
  }
}

const program::Term* LiveTrace::tensor_named(const std::string& name) const {
  for (const auto& [value, path] : attribute_of_) {
    if (path != name) continue;
    const auto term = env_.find(value);
    return term == env_.end() ? nullptr : &term->second;
  }
  return nullptr;
}

}  // namespace whence::recorder::live
