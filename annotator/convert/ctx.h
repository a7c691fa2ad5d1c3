// Ctx: all that an operator converter sees. It reads arguments by schema name and returns results through yield().
// emit() is the only way to make a node, so that every node gets the origin of its operation.
//
// A converter that cannot serve its arguments throws through the refuse() family. The driver collects these errors, so
// that one run reports all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "annotator/convert/missing_axis.h"
#include "annotator/convert/tracked_opset.h"
#include "annotator/graph/graph.h"
#include "schema/op_schema.h"
#include "schema/program.h"

namespace whence::convert {

// A handle to a value of the ONNX graph being built.
struct Val {
  graph::GraphValueId id = graph::no_value;
  explicit operator bool() const { return id != graph::no_value; }  // false: an absent optional input
  bool operator==(const Val&) const = default;
};
inline constexpr Val absent{};

// A tensor's sizes. Indices are checked (MissingAxis).
class Dims {
 public:
  explicit Dims(const std::vector<Dim>& dims) : dims_(&dims) {}
  operator const std::vector<Dim>&() const { return *dims_; }
  const Dim& operator[](std::size_t i) const {
    if (i >= size()) throw MissingAxis(size());
    return (*dims_)[i];
  }
  const Dim& front() const { return (*this)[0]; }
  const Dim& back() const { return (*this)[size() - 1]; }
  std::size_t size() const { return dims_->size(); }
  bool empty() const { return dims_->empty(); }
  auto begin() const { return dims_->begin(); }
  auto end() const { return dims_->end(); }

 private:
  const std::vector<Dim>* dims_;
};

// A size or index: known at export, or computed by the graph at run time (an int64 scalar value).
using Size = std::variant<std::int64_t, Val>;

using Ints = std::vector<std::int64_t>;
using Attributes = std::vector<graph::Attribute>;

inline constexpr int first_opset_with_allowzero = 14;
inline constexpr std::int64_t max_count = std::numeric_limits<std::int32_t>::max();

class ConvertSession;  // the driver's state: program, graph, value map (convert.cpp)

class Ctx {
 public:
  Ctx(ConvertSession& session, const Node& node, const OpSchema& schema);

  // ---- arguments, by schema name. Scalars must be constants unless stated otherwise; else refuse() is called.
  bool has(std::string_view name) const;                     // passed and not None (a non-None default counts)
  Val tensor(std::string_view name);                         // also accepts a Scalar argument, as a 0-d constant
  Val optional_tensor(std::string_view name);                // absent when None
  std::vector<Val> tensors(std::string_view name);           // Tensor[]
  std::vector<Val> optional_tensors(std::string_view name);  // Tensor?[]: absent for None
  Val sequence(std::string_view name);  // Tensor[] of unknown length; absent if the length is known
  std::int64_t integer(std::string_view name);
  // A count or a length, from `least` to `max_count`, so that sums and products of two fit into 64 bits.
  std::int64_t count(std::string_view name, std::int64_t least = 1);
  // Like count() for each of `axes` axes; a single number applies to all of them.
  Ints counts(std::string_view name, std::size_t axes, std::int64_t least = 1);
  double number(std::string_view name);  // int, float or bool
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  std::string one_of(std::string_view name, std::initializer_list<std::string_view> allowed);
  // int[]: constants, or elements that may be dynamic. An int[2] has two elements, unless it is the default.
  Ints integers(std::string_view name);
  std::vector<Size> sizes(std::string_view name);
  Size size(std::string_view name);  // int that may be dynamic
  // A Scalar argument as a 0-d tensor of `dtype`; dynamic scalars are cast.
  Val scalar(std::string_view name, DType dtype);

  // ---- facts about values. Dims are those that PyTorch reported for the example inputs.
  DType dtype(Val value) const;
  int rank(Val value) const;   // refuses when unknown
  Dims dims(Val value) const;  // refuses when unknown; the reference becomes invalid when a node is emitted
  std::optional<std::int64_t> static_dim(Val value, std::int64_t axis) const;  // negative axis counts from the end
  bool all_static(Val value) const;
  std::int64_t axis(std::int64_t axis, int rank) const;  // wraps negative, refuses when out of range
  const TensorData* constant(Val value) const;
  const TrackedOpset& opset() const;
  // Returns true if the export writes this operator of opset 23 or newer (operators/operator_forms.h).
  bool writes(std::string_view op_type) const;
  // Returns the recorded type of the operation's i-th result.
  DType output_dtype(int index = 0) const;
  std::optional<Dims> output_dims(int index = 0) const;  // nullopt when unknown
  int output_count() const;                              // number of elements for list results
  bool yields_sequence() const;                          // a list result whose length depends on sizes or data
  bool result_used(int index) const;                     // true if anything reads the operation's i-th result

  // ---- making nodes
  Val emit(std::string_view op_type, std::vector<Val> inputs, Attributes attributes = {});
  std::vector<Val> emit_many(std::string_view op_type, std::vector<Val> inputs, Attributes attributes, int outputs);
  // States the type of an emitted value, for converters that query dtype() or rank() of their own intermediate results.
  Val typed(Val value, DType dtype, std::optional<std::vector<Dim>> dims = std::nullopt);

  // Runs `body` `count` times, with the iteration number and the carried values, which start as `initial`. Each call
  // returns the next carried values, with the same dtypes and sizes; the last ones are the result. The body is a
  // separate graph: it reads values of the enclosing graph through from_enclosing(), but constants directly.
  using LoopBody = std::function<std::vector<Val>(Val iteration, const std::vector<Val>& carried)>;
  std::vector<Val> loop(Val count, const std::vector<Val>& initial, const LoopBody& body);
  Val from_enclosing(Val value);

  // Constants; equal small ones are shared across the graph.
  Val constant_ints(const Ints& values);           // int64, rank 1
  Val constant_int(std::int64_t value);            // int64, rank 0
  Val constant_number(double value, DType dtype);  // rank 0
  Val constant_tensor(TensorData data);

  // ---- recurring operations, each at most one node
  Val cast(Val value, DType dtype);                        // no node if the dtype is the same
  Val reshape(Val value, const std::vector<Size>& shape);  // 0 / -1 forms chosen so that no Shape node is needed
  Val reshape_to_output(Val value, int index = 0);         // to the recorded shape of result `index`
  Val transpose(Val value, const Ints& permutation);       // no node for the identity
  Val unsqueeze(Val value, const Ints& axes);              // axes of the result, not negative
  Val squeeze(Val value, const Ints& axes);
  Val dim_of(Val value, std::int64_t axis);       // int64 scalar; a constant when static
  Val to_scalar_value(const Size& size);          // int64 scalar
  Val to_vector(const std::vector<Size>& sizes);  // int64 rank 1; a constant when all are static
  // Returns true if `size` certainly equals the size of that axis; `axis` is not negative.
  bool same_size(const Size& size, Val value, std::int64_t axis) const;
  // Returns the size if it is known at export, also if it is a constant value.
  std::optional<std::int64_t> static_size(const Size& size) const;
  // Casts both operands to the dtype PyTorch computes in; Python scalars and 0-d tensors do not widen within a
  // category.
  std::pair<Val, Val> promoted(Val a, Val b);
  // Returns the dtype that the operands promote to (torch.result_type). Python floats count as float32, the default
  // dtype.
  DType promoted_dtype(const std::vector<Val>& operands) const;

  // ---- results
  void yield(Val value);                       // the only result; dtype and dims come from the recorded program
  void yield(const std::vector<Val>& values);  // several results, or the elements of a list result

  // ---- refusing. `remedy` tells the user what to do; never empty.
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const;
  // Refuses a call that PyTorch itself would reject, and that only a damaged archive can hold.
  void expect(bool holds, const std::string& what) const {
    if (!holds) refuse(what, "save the model again; PyTorch refuses this too");
  }

  // A table of these sizes that is to be stored in the file may have up to 16,777,216 elements. table_size() returns
  // the product of the sizes, and refuses a table that does not fit.
  bool table_fits(const Ints& sizes) const;
  std::size_t table_size(const Ints& sizes) const;

  const Node& node() const { return node_; }
  const OpSchema& schema() const { return schema_; }
  graph::Graph& graph();
  ConvertSession& session() { return session_; }

 private:
  const Argument& argument(std::string_view name) const;  // passed or default; refuses if neither
  bool is_sequence(const Argument& argument) const;
  Val value_of(const Argument& argument);  // tensors, and scalars as 0-d values
  std::optional<TensorData> known(const Argument& argument) const;
  Size size_of(const Argument& argument, std::string_view name);
  void require_count(std::string_view name, std::int64_t value, std::int64_t least) const;
  struct ReshapeTarget;
  Val emit_reshape(Val value, std::vector<ReshapeTarget> target);

  ConvertSession& session_;
  const Node& node_;
  const OpSchema& schema_;
  std::vector<Val> wrapped_;  // arguments that are Python numbers in PyTorch
};

// One line of an operator table: the schema string is the key.
struct OpEntry {
  const char* schema;
  void (*convert)(Ctx&);
};

}  // namespace whence::convert
