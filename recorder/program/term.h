// Term: the evaluator's representation of one TorchScript value. Only tensors, and the scalars computed from them, are
// values of the Program; modules, containers, functions and literals exist only as terms.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "recorder/base/runs.h"
#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::program {

// The value in each run; empty for a run that did not compute it.
using RunValues = PerRun<std::optional<c10::IValue>>;

struct Term {
  // `unset` is a variable that an early return or break left without a value; nothing reads it. `optional` may be None,
  // depending on data: its items are a flag, true if it is not None, and the content.
  enum class Kind : std::uint8_t { none, unset, literal, value, object, list, tuple, dict, optional };

  Kind kind = Kind::none;
  ValueId id = none_id;                      // value
  RunValues seen;                            // value: what each run computed; literal: seen[0]
  bool known = false;                        // value: depends on no input, see Value::known
  std::shared_ptr<const Term> number;        // the number from which prim::NumToTensor made this tensor
  std::shared_ptr<std::vector<Term>> items;  // list (shared: aliases see changes), tuple, dict (key, value, ...)
  bool sequence = false;                     // value: a sequence of the Program, and the only item of its list
  int depth = 0;                             // list, dict: number of data-dependent blocks around its creation
  c10::intrusive_ptr<c10::ivalue::Object> object;

  static Term unset() {
    Term term;
    term.kind = Kind::unset;
    return term;
  }
  static Term literal(c10::IValue value) {
    Term term;
    term.kind = value.isNone() ? Kind::none : Kind::literal;
    if (!value.isNone()) term.seen[0] = std::move(value);
    return term;
  }
  static Term of_value(ValueId id, RunValues seen = {}) {
    Term term;
    term.kind = Kind::value;
    term.id = id;
    term.seen = std::move(seen);
    return term;
  }
  static Term of_object(c10::intrusive_ptr<c10::ivalue::Object> object) {
    Term term;
    term.kind = Kind::object;
    term.object = std::move(object);
    return term;
  }
  // Makes a list whose elements exist only in the Program.
  static Term of_sequence(Term value, int depth) {
    value.sequence = true;
    return container(Kind::list, {std::move(value)}, depth);
  }
  static Term container(Kind kind, std::vector<Term> items, int depth = 0) {
    Term term;
    term.kind = kind;
    term.items = std::make_shared<std::vector<Term>>(std::move(items));
    term.depth = depth;
    return term;
  }

  // Returns a deep copy: later changes of the original containers do not affect it.
  Term copied() const {
    if (!items) return *this;
    std::vector<Term> own;
    for (const Term& item : *items) own.push_back(item.copied());
    return container(kind, std::move(own), depth);
  }

  // True for a list whose length depends on data: its elements exist only in the Program.
  bool is_sequence() const { return kind == Kind::list && items->size() == 1 && items->front().sequence; }
  // True for a container whose elements the evaluator holds.
  bool is_container() const {
    return (kind == Kind::list || kind == Kind::tuple || kind == Kind::dict || is_optional()) && !is_sequence();
  }
  bool is_optional() const { return kind == Kind::optional; }
  bool may_be_none() const { return kind == Kind::none || is_optional(); }
  const Term& flag() const { return (*items)[0]; }     // optional
  const Term& content() const { return (*items)[1]; }  // optional
  Term as_optional() const {
    if (is_optional()) return *this;
    if (kind == Kind::none) return container(Kind::optional, {literal(false), unset()});
    return container(Kind::optional, {literal(true), *this});
  }
  bool is_value() const { return kind == Kind::value; }
  // Returns true if the item is a dict key; keys are always settled.
  bool is_key(std::size_t item) const { return kind == Kind::dict && item % 2 == 0; }
  // Returns true if it contains values of the Program, at any depth.
  bool has_values() const {
    if (is_value()) return true;
    if (items) {
      for (const Term& item : *items) {
        if (item.has_values()) return true;
      }
    }
    return false;
  }
  // Returns the host value of a literal or a known value; empty if the term depends on an input.
  std::optional<c10::IValue> settled() const {
    if (kind == Kind::none) return c10::IValue();
    if (kind == Kind::literal || (is_value() && known)) return seen[0];
    return std::nullopt;
  }
  // True for a settled number or boolean.
  bool is_settled_number() const {
    const auto number = settled();
    return number && number->isScalar();
  }
  // Returns the host value in one run; a literal or known value is the same in all runs.
  std::optional<c10::IValue> at(int run) const { return is_value() ? seen[run] : settled(); }
  std::optional<std::int64_t> integer_at(int run) const {
    const auto value = at(run);
    return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
  }
};

// Returns the term as an argument of an operator. `type`: the argument's type in the schema, may be null. TorchScript
// stores dtypes and layouts as numbers, and only the schema distinguishes them.
Argument argument(const Term& term, const c10::Type* type);

// Returns the operation of `node` on these arguments, without results and origin.
Node operation_of(const torch::jit::Node& node, const std::vector<Term>& arguments);

// Adds the results of a program. Containers are flattened; names are dict keys and positions, joined by dots.
void add_outputs(const Term& term, const std::string& name, std::vector<ProgramOutput>& outputs);

// Returns the host value in run `run`; empty if it was never computed.
std::optional<c10::IValue> host(const Term& term, const c10::TypePtr& type, int run);

// Returns the arguments of `node` in run `run`; empty if one was never computed.
std::optional<torch::jit::Stack> host_arguments(const torch::jit::Node& node, const std::vector<Term>& arguments,
                                                int run);

// Returns the dtype of the 0-d tensor that PyTorch makes of a number.
DType dtype_of_number(const c10::IValue& number);

// Returns the dtype of the elements of a list; undefined if the list is empty in every run.
DType element_dtype(const RunValues& lists);

// Returns the type of a value that no run computed, from its declared type. Types from the tracer have dtype and sizes.
Type declared_type(const c10::TypePtr& type);

// Returns T for Optional[T], and any other type (or null) unchanged.
c10::TypePtr without_optional(c10::TypePtr type);

// Returns fixed dims of these sizes.
std::vector<Dim> static_dims(c10::IntArrayRef sizes);

// Marks a 0-d tensor as a Python number. A traced number, as in `ids * 0.5`, is a 0-d tensor of the graph. PyTorch
// marks it when it runs the graph, so that it does not decide the result's dtype; here every operator runs separately.
void mark_number(const at::Tensor& tensor);

// Throws Error unless both dicts have the same keys in the same order: only their values may depend on data.
void check_same_keys(const Term& a, const Term& b);

// Returns the declared type of a container's i-th item, where each key of a dict is an item; null if not declared.
c10::TypePtr item_type(const c10::TypePtr& container, std::size_t i);

// Returns the memory of a tensor in a run; null for any other term.
c10::StorageImpl* memory_of(const Term& term, int run);
// Returns the memories of a tensor in all runs, each once; empty for any other term.
std::vector<c10::StorageImpl*> memories_of(const Term& term);

// Returns the arguments that an operation writes to, if they are tensors with memory.
std::vector<const Term*> written_by(const torch::jit::Node& node, const std::vector<Term>& arguments);

// Returns true if the operation writes into its first argument.
bool changes_first_argument(const torch::jit::Node& node);

// "x.17" -> "x": removes the suffix that TorchScript adds to make a name unique.
std::string base_name_of_value(const std::string& debug_name);

// Returns true if the two are the same value, the same container or equal literals.
bool same_term(const Term& a, const Term& b);

inline bool same_literal(const c10::IValue& a, const c10::IValue& b) {
  return a.tagKind() == b.tagKind() && a.equals(b).toBool();
}

}  // namespace whence::recorder::program
