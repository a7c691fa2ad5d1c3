// Term: what the evaluator knows about one TorchScript value. Only tensors and the scalars computed from them are
// values of the Program; modules, containers, functions and literals exist only as terms and do not appear in the
// Program.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "recorder/base/runs.h"
#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::program {

// By run, the value that the run computed; empty for a run that did not compute it.
using Seen = PerRun<std::optional<c10::IValue>>;

struct Term {
  // `unset` is a variable that an early return or break left without a value; nothing reads it. `optional` is None or
  // not, depending on data: a flag that is true if it is not None, and the content.
  enum class Kind : std::uint8_t { none, unset, literal, value, object, list, tuple, dict, optional };

  Kind kind = Kind::none;
  ValueId id = none_id;                      // value
  Seen seen;                                 // value: what each run computed; literal: seen[0]
  bool known = false;                        // value: depends on no input, see Value::known
  std::shared_ptr<const Term> number;        // tensor that prim::NumToTensor made of this number
  std::shared_ptr<std::vector<Term>> items;  // list (shared: aliases see changes), tuple, dict (key, value, ...)
  bool sequence = false;                     // value: a complete list of the Program, the only item of its list
  int depth = 0;                             // list, dict: data-dependent blocks around its creation
  c10::intrusive_ptr<c10::ivalue::Object> object;

  static Term nothing() {
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
  static Term of_value(ValueId id, Seen seen = {}) {
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
  // Makes a list whose elements only the Program knows.
  static Term of_sequence(Term whole, int depth) {
    whole.sequence = true;
    return container(Kind::list, {std::move(whole)}, depth);
  }
  static Term container(Kind kind, std::vector<Term> items, int depth = 0) {
    Term term;
    term.kind = kind;
    term.items = std::make_shared<std::vector<Term>>(std::move(items));
    term.depth = depth;
    return term;
  }

  // Returns a copy with containers of its own: later changes of the originals do not affect it.
  Term copied() const {
    if (!items) return *this;
    std::vector<Term> own;
    for (const Term& item : *items) own.push_back(item.copied());
    return container(kind, std::move(own), depth);
  }

  // True for a list whose length depends on data: only the Program knows its elements.
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
    if (kind == Kind::none) return container(Kind::optional, {literal(false), nothing()});
    return container(Kind::optional, {literal(true), *this});
  }
  bool is_value() const { return kind == Kind::value; }
  // True if the item is a dict key; keys are always settled.
  bool is_key(std::size_t item) const { return kind == Kind::dict && item % 2 == 0; }
  // True if it holds values of the Program, at any depth.
  bool has_values() const {
    if (is_value()) return true;
    if (items) {
      for (const Term& item : *items) {
        if (item.has_values()) return true;
      }
    }
    return false;
  }
  // The host value of a literal, or of a value that is known; empty when it depends on an input.
  std::optional<c10::IValue> settled() const {
    if (kind == Kind::none) return c10::IValue();
    if (kind == Kind::literal || (is_value() && known)) return seen[0];
    return std::nullopt;
  }
  // True for a number or boolean that is settled.
  bool is_settled_number() const {
    const auto number = settled();
    return number && number->isScalar();
  }
  // The host value in one run; a literal or known value is the same in all runs.
  std::optional<c10::IValue> at(int run) const { return is_value() ? seen[run] : settled(); }
  std::optional<std::int64_t> integer_at(int run) const {
    const auto value = at(run);
    return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
  }
};

// Returns the term as an argument of an operator whose schema has `type` there (may be null): dtypes and layouts are
// numbers in TorchScript, and only the schema distinguishes them.
Argument argument(const Term& term, const c10::Type* type);

// Returns the operation of `node` on these arguments, without results and origin.
Node operation_of(const torch::jit::Node& node, const std::vector<Term>& arguments);

// Adds the results of a program, containers flattened: names are dict keys and positions, joined by dots.
void add_outputs(const Term& term, const std::string& name, std::vector<ProgramOutput>& outputs);

// Returns the value in run `run`; empty when it was never computed.
std::optional<c10::IValue> host(const Term& term, const c10::TypePtr& type, int run);

// Returns the arguments of `node` in run `run`; empty when one was never computed.
std::optional<torch::jit::Stack> host_arguments(const torch::jit::Node& node, const std::vector<Term>& arguments,
                                                int run);

// The dtype of a number as a tensor without axes.
DType dtype_of_number(const c10::IValue& number);

// The dtype of the elements of a list; undefined when no run put one in.
DType element_dtype(const Seen& lists);

// The type of a value that is declared as `type` and was never computed. The tracer's types have dtype and sizes.
Type declared_type(const c10::TypePtr& type);

// Optional[T] -> T; anything else, null included, stays.
c10::TypePtr without_optional(c10::TypePtr type);

// Sizes that are the same in every run.
std::vector<Dim> static_dims(c10::IntArrayRef sizes);

// A Python number that was traced, as in `ids * 0.5`, is a 0-d tensor of the graph. PyTorch marks it as a number when
// it runs the graph, so that it does not decide the result's dtype; here every operator runs by itself.
void mark_number(const at::Tensor& tensor);

// Throws Error unless both dicts have the same keys in the same order: only their contents may depend on data.
void check_same_keys(const Term& a, const Term& b);

// The declared type of a container's i-th item, keys of dicts included; null where it is not declared.
c10::TypePtr item_type(const c10::TypePtr& container, std::size_t i);

// The memory of a tensor in a run; null for anything else.
c10::StorageImpl* memory_of(const Term& term, int run);
// The memories of a tensor in all runs, each once. Empty for anything else.
std::vector<c10::StorageImpl*> memories_of(const Term& term);

// Returns the arguments that an operation writes into: tensors with memory.
std::vector<const Term*> written_by(const torch::jit::Node& node, const std::vector<Term>& arguments);

// True if the operation writes into its first argument.
bool changes_first_argument(const torch::jit::Node& node);

// "x.17", as TorchScript makes a name unique -> "x".
std::string base_name_of_value(const std::string& debug_name);

// True if the two are the same value, the same container or equal literals.
bool same_term(const Term& a, const Term& b);

inline bool same_literal(const c10::IValue& a, const c10::IValue& b) {
  return a.tagKind() == b.tagKind() && a.equals(b).toBool();
}

}  // namespace whence::recorder::program
