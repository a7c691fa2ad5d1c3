// Program: a PyTorch program as a graph of ATen operations without LibTorch. Each operation has an Origin.
//
// Written by recorder/ (TorchScript archives, live modules), annotator/pt2 (torch.export archives) and the sidecar
// reader. Read by annotator/lower, annotator/exporter, annotator/match and the sidecar writer.
// Guarantees: values are defined before use; nodes are in execution order; every node has an origin; arguments have the
// names of the operator schema, and arguments with their default value may be absent.
// The reader resolves structure (tuples, lists, dicts, module attributes), so it does not occur as nodes: an argument
// holds a list directly, and an operator that returns Tensor[] has one output per element. The exception is a list
// whose length depends on data: it is one value, a sequence, and operators that change it return a new sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schema/dtype.h"
#include "schema/index.h"
#include "schema/size.h"
#include "schema/tensor_data.h"

namespace whence {

// Indices into the lists of Program. SymbolId, for Program::symbols, is in size.h.
using ValueId = Index<struct Value>;
using ModuleId = Index<struct Module>;
using ScopeId = Index<struct Scope>;
using StackId = Index<std::vector<struct Frame>>;
using ParameterId = Index<struct Parameter>;
using ConstantId = Index<struct Constant>;

inline constexpr ModuleId root_module{0};
inline constexpr ScopeId root_scope{0};  // the root's first call

// ---- provenance -------------------------------------------------------------------------------------------------

// One module object of the tree, under its name in named_modules().
struct Module {
  std::string path;  // qualified name, "encoder.layer.0"; the root is ""
  std::string type;  // class, "torch.nn.modules.linear.Linear"
  ModuleId parent = none_id;
  std::vector<std::string> aliases;         // further qualified names of the same object, in order of discovery
  std::vector<ModuleId> children;           // direct children in order of registration, each shared child once
  int level = 0;                            // number of segments in path
  bool standard = false;                    // defined by torch.nn
  std::vector<ParameterId> own_parameters;  // parameters and buffers registered directly on it
  std::int64_t parameters_total = 0;        // elements of all distinct parameters at and below it
  std::int64_t parameters_trainable = 0;

  bool leaf() const { return children.empty(); }
};

// One call of one module. Scopes form a tree, in which the path to the root is the call stack of modules. Parents
// precede their children.
struct Scope {
  ScopeId parent = none_id;
  ModuleId module = root_module;
  std::int32_t call = 0;  // 0 for the module's first call in execution order, 1 for the second, ...

  bool operator==(const Scope&) const = default;
};

struct Frame {
  std::string file;
  std::int32_t line = 0;
  std::string function;   // empty if the archive does not contain it
  std::string text = {};  // the source line without indentation; empty if the archive does not contain it

  bool operator==(const Frame&) const = default;
};

// Returns "model.py:12 forward", or only the function if the file is unknown (native code without debug information).
std::string source_place(const Frame& frame);

// A source stack, innermost frame first. Readers leave out frames of PyTorch's call machinery.
using Stack = std::vector<Frame>;

// How an operation's scope was determined. C++ modules do not report their calls, so the scope of their direct
// operations is inferred from the layers around them, and sometimes only an enclosing module is known.
enum class ScopeBasis : std::uint8_t { observed, inferred, enclosing };

struct Origin {
  std::int32_t op = none_id;  // index of the recorded operation in execution order, nested blocks included
  ScopeId scope = root_scope;
  StackId stack = none_id;
  std::string name;       // the front end's own node name (fx node, TorchScript debug name)
  std::string text = {};  // the fx node as torch.fx prints it, on one line; empty for TorchScript
  ScopeBasis basis = ScopeBasis::observed;
};

// ---- values -----------------------------------------------------------------------------------------------------

// The kind of a symbol. axis: the length of an input axis, which the caller chooses. data: a number that depends on
// data, the result of one operation. derived: computed from other symbols. unknown: from a sidecar before version 1.2.
enum class SymbolKind : std::uint8_t { unknown, axis, data, derived };

// A dynamic size: named ("batch") or derived ("2*batch + 1"). Each distinct size of a program is one symbol. The name
// is only for people.
struct Symbol {
  std::string name;
  std::int64_t example = 0;  // its size in the first example run
  std::optional<std::int64_t> min = {}, max = {};
  SymbolKind kind = SymbolKind::axis;
  Size size = Size::unknown();  // if derived: the expression over symbols of other kinds
};

struct Dim {
  std::int64_t size = -1;     // size in the example run; -1 if unknown
  bool dynamic = false;       // may differ at run time
  SymbolId symbol = none_id;  // set if dynamic and equal to a symbol

  bool is_static() const { return !dynamic && size >= 0; }
  bool operator==(const Dim&) const = default;
};

// Returns true if both axes have the same length in every run.
bool same_length(const Dim& a, const Dim& b);

// sequence: a list of tensors or numbers whose length is known only at run time. optional: a tensor or None, depending
// on data.
enum class ValueKind : std::uint8_t { tensor, integer, floating, boolean, string, opaque, sequence, optional };

constexpr bool is_scalar(ValueKind kind) {
  return kind != ValueKind::tensor && kind != ValueKind::sequence && kind != ValueKind::optional;
}

struct Type {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::undefined;  // of the tensor, the sequence's elements, or the scalar (int64, float64, boolean)
  std::optional<std::vector<Dim>> dims;  // for tensors and optionals; nullopt if the rank is unknown
};

enum class ValueSource : std::uint8_t { node, input, parameter, constant, block_input };

struct Value {
  std::string name;  // the front end's name, unique within the program
  Type type;
  ValueSource source = ValueSource::node;
  std::int32_t index = none_id;  // into inputs, parameters or constants, depending on source
  ConstantId known = none_id;    // the constant value, if it depends on no input (folded by running PyTorch)

  // Returns the constant that the value equals in every run; none_id if unknown, and for parameters.
  ConstantId content() const { return source == ValueSource::constant ? ConstantId(index) : known; }
};

// A tensor or scalar that is part of the program. Scalars are stored as 0-d tensors (int64, float64, bool).
struct Constant {
  TensorData data;
  std::string name;               // archive member or front end's name, may be empty
  std::vector<std::int32_t> ops;  // operations that were folded into it; empty for constants of the model itself
  std::string digest = {};        // xxh3-128 of the bytes if a sidecar left them out; otherwise empty
};

enum class ParameterKind : std::uint8_t { parameter, buffer, attribute };

// Digests that identify a weight after it was renamed, transposed or converted: xxh3-128, 32 hex digits.
struct TensorDigests {
  std::string content;            // digest of the contiguous bytes; empty unless requested
  std::string transposed;         // digest of the transpose, matrices only
  std::string float16, bfloat16;  // digests of the casts, float32 and float64 only
};

struct Parameter {
  std::string name;                  // canonical qualified name, "encoder.layer.0.attention.self.query.weight"
  std::vector<std::string> aliases;  // tied names
  ParameterKind kind = ParameterKind::parameter;
  bool trainable = false;  // requires_grad
  bool persistent = true;
  TensorData data;     // data.bytes.file() and offset() are the location in the archive
  std::string member;  // archive member, "model/data/3"; empty if materialised
  TensorDigests digests;
  std::vector<std::int8_t> sketch;  // tensor_sketch.h; empty unless requested
};

// The memory layout of a tensor, in elements. place.h derives it by the rules of the view operators.
struct MemoryPlace {
  ValueId memory = none_id;          // the value that owns the memory
  Size offset;                       // of the first element
  std::vector<Size> sizes, strides;  // by axis

  bool operator==(const MemoryPlace&) const = default;
};

// A layout that a reader observed and that differs from the rules; nullopt for an unknown layout.
struct StatedPlace {
  ValueId value = none_id;
  std::optional<MemoryPlace> place;
};

// ---- nodes ------------------------------------------------------------------------------------------------------

struct None {
  bool operator==(const None&) const = default;
};
struct ValueRef {
  ValueId id = none_id;
  bool operator==(const ValueRef&) const = default;
};
// A device, layout or memory format, kept by name ("cpu", "strided") because ONNX does not need it.
struct Keyword {
  std::string name;
  bool operator==(const Keyword&) const = default;
};
struct ComplexNumber {
  double real = 0, imag = 0;
  bool operator==(const ComplexNumber&) const = default;
};

struct Argument;
using ArgumentList = std::vector<Argument>;
struct Argument {
  std::variant<None, ValueRef, std::int64_t, double, bool, std::string, DType, Keyword, ComplexNumber, ArgumentList>
      data;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  bool is_none() const { return as<None>() != nullptr; }
  bool operator==(const Argument&) const = default;
};

struct NamedArgument {
  std::string name;
  Argument value;
};

struct Node;
// A branch of prim::If, the body of prim::Loop (inputs: iteration, carried; outputs: condition, carried, stacked).
struct Block {
  std::vector<ValueId> inputs;
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
};

struct Node {
  std::string target;    // "aten::linear", "prim::If"
  std::string overload;  // "", "Tensor", "int"
  std::vector<NamedArgument> arguments;
  std::vector<ValueId> outputs;
  bool list_output = false;  // outputs are the elements of one Tensor[] result
  std::vector<Block> blocks;
  Origin origin;

  const Argument* find(std::string_view name) const;
};

// An argument of prim::If, present only if its branches return tensors of different ranks. True if the example takes
// the first branch.
inline constexpr std::string_view example_argument = "taken_by_example";

// Returns "aten::add.Tensor", or "aten::linear" without an overload.
std::string qualified(const Node& node);

// ---- the program ------------------------------------------------------------------------------------------------

struct ProgramInput {
  std::string name;  // argument name of forward; elements of containers have paths: "past.0"
  ValueId value = none_id;
};
struct ProgramOutput {
  std::string name;  // dict key or field name, if any
  Argument value;    // a value, or a constant that the model returns
};

// One entry of torch.export's graph signature.
struct SignatureEntry {
  std::string kind;                   // "PARAMETER", "USER_INPUT", "BUFFER_MUTATION", ...
  std::string name;                   // name of the value in the graph; empty for a constant
  std::optional<std::string> target;  // the parameter, buffer or input that it refers to
  std::optional<bool> persistent;     // for buffers

  bool operator==(const SignatureEntry&) const = default;
};

struct Signature {
  std::vector<SignatureEntry> inputs, outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
};

struct SourceFile {
  std::string kind;  // "torchscript", "torch.export", "live"
  std::string file;  // base name, never a path of the recording machine
  std::uint64_t size = 0;
  std::string digest;  // xxh3-128 of the file; empty unless requested
};

struct Program {
  SourceFile source;
  std::string producer;  // "whence 0.1.0, PyTorch 2.13.0"
  IndexedVector<ModuleId, Module> modules;
  IndexedVector<ScopeId, Scope> scopes;
  IndexedVector<StackId, Stack> stacks;
  IndexedVector<SymbolId, Symbol> symbols;
  std::vector<Constraint> constraints;  // assumed by branches on sizes; at other sizes the model may behave differently
  IndexedVector<ParameterId, Parameter> parameters;
  IndexedVector<ConstantId, Constant> constants;
  IndexedVector<ValueId, Value> values;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  bool placed = false;              // layouts were observed: those in `places`, others by rule
  std::vector<StatedPlace> places;  // sorted by value
  Signature signature;              // from a torch.export archive; empty for TorchScript
  Block body;
  bool ran = false;  // example inputs were run, so dtypes and shapes are known

  const std::string& module_path(ScopeId scope) const { return modules[scopes[scope].module].path; }
};

// Returns the length of an axis as an expression over symbols that are not derived; an unknown Size if it has no
// symbol.
Size length_of(const IndexedVector<SymbolId, Symbol>& symbols, const Dim& dim);

// Names a derived symbol by its expression: "2*batch + 1".
void name_derived(IndexedVector<SymbolId, Symbol>& symbols, SymbolId id);

// Returns the integer or flag of an argument that is a literal or a value with known content; nullopt for others.
std::optional<std::int64_t> known_integer(const Program& program, const Argument& argument);
std::optional<bool> known_flag(const Program& program, const Argument& argument);

// Returns the range of a symbol: from 0, or from its bounds. A minimum of up to 2 for an axis is ignored, because
// torch.export states 2 for every dynamic axis.
SizeRange range_of(const Symbol& symbol);

// Adds a constraint to the program, unless it always holds for lengths.
void assume(Program& program, Constraint constraint);
// Returns true if the size may have this value in some run that the program's constraints allow.
bool may_be(const Program& program, const Size& size, std::int64_t number);

// Returns the deepest scope that encloses all of `scopes`. For two calls of a module it is above both calls.
ScopeId common_ancestor(const Program& program, const std::vector<ScopeId>& scopes);

// Returns all operations in execution order, nested blocks included. As read from a file, element i has origin.op == i.
std::vector<const Node*> operations(const Program& program);

// Returns a digest over targets, scopes and parameter names, which does not depend on the file format.
std::string program_digest(const Program& program);

}  // namespace whence
