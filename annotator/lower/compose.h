// Compose: builds the smaller operators, each with a converter, that ATen itself defines an operator by. Used by
// decompose.cpp and the complex-pairs pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/lower/pass.h"

namespace whence::lower {

// Collects the nodes that replace `composite`. Each carries its origin, except for the module.
class Compose {
 public:
  Compose(Program& program, const Node& composite)
      : program_(program), composite_(composite), scope_(composite.origin.scope) {}

  const Argument& argument(std::string_view name) const;  // None if absent
  std::int64_t integer(std::string_view name) const;      // for constants and flags; throws converter_refused otherwise
  double number(std::string_view name) const;
  // Throws converter_refused if the rank is unknown or less than `least`.
  const std::vector<Dim>& dims(const Argument& value, std::size_t least = 0) const;
  DType dtype(const Argument& value) const;

  // During its lifetime, new nodes belong to the module that owns `weight` if that module is below the composite's.
  class ModuleScope {
   public:
    ModuleScope(Compose& compose, const Argument& weight);
    ~ModuleScope() { compose_.scope_ = before_; }
    ModuleScope(const ModuleScope&) = delete;
    ModuleScope& operator=(const ModuleScope&) = delete;

   private:
    Compose& compose_;
    ScopeId before_;
  };

  // Adds a node with one result of this type and returns it; `target` as in "aten::unflatten.int".
  Argument add(std::string_view target, std::vector<NamedArgument> arguments, DType dtype, std::vector<Dim> dims);

  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const;

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  ScopeId scope_inside(ModuleId module);

  Program& program_;
  const Node& composite_;
  ScopeId scope_;  // scope of the nodes added next
  std::vector<Node> nodes_;
};

inline Dim fixed(std::int64_t size) { return Dim{size, false, none_id}; }

// Returns the results of `composite`, in order; None for a result that nothing reads.
using Composition = std::vector<Argument> (*)(Compose&, const std::vector<bool>& used);

// The compositions of compose_transformer.cpp.
std::vector<Argument> native_multi_head_attention(Compose& c, const std::vector<bool>& used);
std::vector<Argument> transformer_encoder_layer_fwd(Compose& c, const std::vector<bool>& used);

}  // namespace whence::lower
