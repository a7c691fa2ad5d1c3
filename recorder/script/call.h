// Call: a function of an archive that is being evaluated. Step: its node that is being evaluated.
#pragma once

#include <unordered_map>
#include <utility>

#include "recorder/program/term.h"
#include "whence/diagnostics.h"

namespace whence::recorder::script {

using program::Term;

struct Call {
  std::string function;  // plain name, for source frames
  ScopeId scope = root_scope;
  Stack callers;                         // scripted call sites, innermost first
  bool outermost = false;                // the root's own forward
  const torch::jit::Node* at = nullptr;  // the innermost node that is being evaluated
  std::unordered_map<const torch::jit::Value*, Term> env;

  // Throws Error internal if the value was not set.
  const Term& term(const torch::jit::Value* value) const {
    const auto found = env.find(value);
    if (found != env.end()) return found->second;
    throw Error(Code::internal, "value %" + value->debugName() + " is read before it is set", "please report the model",
                {.stage = "read"});
  }
};

struct Step {
  const torch::jit::Node& node;
  Call& call;

  const Term& in(std::size_t i) const { return call.term(node.input(i)); }
  std::size_t count() const { return node.inputs().size(); }
  const c10::TypePtr& type(std::size_t i) const { return node.input(i)->type(); }
  std::string name() const { return node.kind().toUnqualString(); }
  std::vector<Term> inputs() const {
    std::vector<Term> terms;
    for (const torch::jit::Value* value : node.inputs()) terms.push_back(call.term(value));
    return terms;
  }
  // Sets the node's first output, if it has one.
  void set_output(Term result) const {
    if (!node.outputs().empty()) call.env[node.outputs()[0]] = std::move(result);
  }
};

}  // namespace whence::recorder::script
