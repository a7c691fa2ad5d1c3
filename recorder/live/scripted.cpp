// Scripted functions and modules that traced code calls: the trace holds one call, its operations are the callee's.
#include "recorder/live/trace.h"
#include "schema/result.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Code::unsupported_feature, "traced code calls scripted code, and " + what,
              "save the traced module and record the archive: whence record model.pt -o model.whence.json",
              {.stage = "record"});
}

// "Layer.forward__0" as TorchScript calls overloads; functions are named by the last part.
bool is_forward(const std::string& method) { return method.rfind("forward", 0) == 0; }

}  // namespace

void LiveTrace::call_scripted(const jit::Node& node) {
  const bool method = node.kind() == c10::prim::CallMethod;
  std::vector<Term> arguments;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) arguments.push_back(term_of(node.inputs()[i], env_));
  const std::size_t first = operations_.size();
  if (method) {
    const auto path = attribute_of_.find(node.inputs()[0]);
    const auto type = node.inputs()[0]->type()->cast<c10::ClassType>();
    jit::Function* function = type ? type->findMethod(node.s(c10::attr::name)) : nullptr;
    if (path == attribute_of_.end() || function == nullptr || !function->isGraphFunction()) {
      refuse("its module is not part of the traced one");
    }
    env_[node.output()] = enter(*function, std::move(arguments), path->second, is_forward(function->name()));
  } else {
    const auto type = node.inputs()[0]->type()->cast<c10::FunctionType>();
    if (!type || !type->function()->isGraphFunction()) refuse("it has no TorchScript code");
    env_[node.output()] = enter(*type->function(), std::move(arguments), "", false);
  }
  if (const auto source = node.sourceRange().source()) scripted_results_[source.get()] = env_[node.output()];
  // The dtype and shape of what comes out are the trace's.
  Term& result = env_[node.output()];
  if (result.is_value() && first < operations_.size()) {
    Value traced;
    const Term fresh = new_value(*node.output(), ValueSource::node, none_id);
    traced = values_[fresh.id];
    values_.pop_back();
    values_[result.id].type = traced.type;
  }
}

Term LiveTrace::enter(jit::Function& function, std::vector<Term> arguments, const std::string& path, bool forward) {
  const jit::Graph& graph = *jit::toGraphFunction(function).graph();
  Env env;
  std::unordered_map<const jit::Value*, std::string> modules;
  std::size_t argument = 0;
  for (const jit::Value* input : graph.inputs()) {
    const auto type = input->type()->cast<c10::ClassType>();
    if (input == graph.inputs()[0] && type && type->is_module()) {
      modules[input] = path;
      continue;
    }
    env[input] = argument < arguments.size() ? arguments[argument] : Term();
    ++argument;
  }
  const bool scope = forward;
  if (scope) {
    calls_.push_back({open_.back().call, std::string("__module") + (path.empty() ? "" : "." + path)});
    open_.push_back({cursor_, static_cast<std::int32_t>(calls_.size() - 1)});
  }
  const std::function<void(const jit::Block&)> walk = [&](const jit::Block& block) {
    for (const jit::Node* node : block.nodes()) {
      switch (node->kind()) {
        case c10::prim::GetAttr: {
          const auto owner = modules.find(node->input());
          if (owner == modules.end()) refuse("it reads an attribute of something that is not a module");
          const std::string name = (owner->second.empty() ? "" : owner->second + ".") + node->s(c10::attr::name);
          if (module_types_.count(name) > 0) {
            modules[node->output()] = name;
          } else if (const Term* tensor = tensor_named(name)) {
            env[node->output()] = *tensor;
          } else {
            env[node->output()] = Term();
          }
          break;
        }
        case c10::prim::CallMethod: {
          const auto owner = modules.find(node->inputs()[0]);
          const auto type = node->inputs()[0]->type()->cast<c10::ClassType>();
          jit::Function* method = type ? type->findMethod(node->s(c10::attr::name)) : nullptr;
          if (owner == modules.end() || method == nullptr || !method->isGraphFunction())
            refuse("it calls a custom class");
          std::vector<Term> inner;
          for (std::size_t i = 1; i < node->inputs().size(); ++i) inner.push_back(term_of(node->inputs()[i], env));
          env[node->output()] = enter(*method, std::move(inner), owner->second, is_forward(method->name()));
          break;
        }
        case c10::prim::CallFunction: {
          const auto type = node->inputs()[0]->type()->cast<c10::FunctionType>();
          if (!type || !type->function()->isGraphFunction()) refuse("it calls a function without TorchScript code");
          std::vector<Term> inner;
          for (std::size_t i = 1; i < node->inputs().size(); ++i) inner.push_back(term_of(node->inputs()[i], env));
          env[node->output()] = enter(*type->function(), std::move(inner), "", false);
          break;
        }
        case c10::prim::If: {
          const auto condition = term_of(node->input(), env).settled();
          if (!condition || !condition->isBool()) refuse("that branches on data");
          const jit::Block& taken = *node->blocks()[condition->toBool() ? 0 : 1];
          walk(taken);
          for (std::size_t i = 0; i < node->outputs().size(); ++i) {
            env[node->outputs()[i]] = term_of(taken.outputs()[i], env);
          }
          break;
        }
        case c10::prim::Loop:
          refuse("that loops");
        case c10::prim::RaiseException:
        case c10::aten::warn:
          break;
        case c10::aten::__is__:
        case c10::aten::__isnot__: {
          const Term a = term_of(node->inputs()[0], env), b = term_of(node->inputs()[1], env);
          const bool none = a.kind == Term::Kind::none && b.kind == Term::Kind::none;
          env[node->output()] = Term::literal(none == (node->kind() == c10::aten::__is__));
          break;
        }
        default:
          if (!read_structure(*node, env)) keep(read_operation(*node, env, true), *node, true);
      }
    }
  };
  walk(*graph.block());
  if (scope) open_.pop_back();
  return graph.outputs().empty() ? Term() : term_of(graph.outputs()[0], env);
}

const Term* LiveTrace::tensor_named(const std::string& name) const {
  for (const auto& [value, path] : attribute_of_) {
    if (path != name) continue;
    const auto term = env_.find(value);
    return term == env_.end() ? nullptr : &term->second;
  }
  return nullptr;
}

}  // namespace whence::recorder
