// Compose: writes an operator as smaller ones that have converters, as ATen itself defines it. Used by decompose.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/lower/pass.h"

namespace whence::lower {

// Collects the nodes that take the place of `composite`; each carries its origin, but for the module.
class Compose {
 public:
  Compose(Program& program, const Node& composite)
      : program_(program), composite_(composite), scope_(composite.origin.scope) {}

  const Argument& argument(std::string_view name) const;  // None when it was not given
  std::int64_t integer(std::string_view name) const;      // known numbers and flags; Error converter_refused otherwise
  double number(std::string_view name) const;
  // Error converter_refused when the rank is unknown, or less than `least`.
  const std::vector<Dim>& dims(const Argument& value, std::size_t least = 0) const;
  DType dtype(const Argument& value) const;

  // While the result lives, nodes are of the module that holds `weight`, if it is below that of the composite.
  class Inside {
   public:
    Inside(Compose& compose, const Argument& weight);
    ~Inside() { compose_.scope_ = before_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Compose& compose_;
    ScopeId before_;
  };

  // A node with one result of the given type; `target` as in "aten::unflatten.int".
  Argument add(std::string_view target, std::vector<NamedArgument> arguments, DType dtype, std::vector<Dim> dims);

  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const;

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  ScopeId scope_inside(ModuleId module);

  Program& program_;
  const Node& composite_;
  ScopeId scope_;  // the scope of the nodes to come
  std::vector<Node> nodes_;
};

inline Dim fixed(std::int64_t size) { return Dim{size, false, none_id}; }

// The results of `composite`, in order; None for a result that nothing reads.
using Composition = std::vector<Argument> (*)(Compose&, const std::vector<bool>& used);

// The families, each in its file.
std::vector<Argument> native_multi_head_attention(Compose& c, const std::vector<bool>& used);
std::vector<Argument> transformer_encoder_layer_fwd(Compose& c, const std::vector<bool>& used);

}  // namespace whence::lower
