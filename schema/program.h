// Program: a PyTorch program as whence sees it. A graph of ATen operations without LibTorch, each with its Origin.
//
// Who fills it: recorder/ (TorchScript archives, live modules), annotator/read (torch.export archives), sidecar reader.
// Who reads it: annotator/lower and annotator/export, the sidecar writer, the match engine.
// Guaranteed: values are defined before they are used; nodes stand in execution order; every node has an origin;
// arguments carry the operator schema's names, defaulted ones may be absent.
// Structure (tuples, lists, dicts, module attributes) is resolved by the reader and does not occur as nodes:
// an argument holds a list directly, and an operator that returns Tensor[] has one output per element. The exception
// is a list whose length depends on data: it is one value, a sequence, and what changes it makes a new one.
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

// Each into the list of Program that has its name; SymbolId, into Program::symbols, is in size.h.
using ValueId = Index<struct Value>;
using ModuleId = Index<struct Module>;
using ScopeId = Index<struct Scope>;
using StackId = Index<std::vector<struct Frame>>;
using ParameterId = Index<struct Parameter>;
using ConstantId = Index<struct Constant>;

inline constexpr ModuleId root_module{0};
inline constexpr ScopeId root_scope{0};  // the root's first call

// ---- where things come from -------------------------------------------------------------------------------------

// One module object of the tree, under the name named_modules() gives it.
struct Module {
  std::string path;  // qualified name, "encoder.layer.0"; the root is ""
  std::string type;  // plain class, "torch.nn.modules.linear.Linear"
  ModuleId parent = none_id;
  std::vector<std::string> aliases;         // further qualified names of the same object, in order of discovery
  std::vector<ModuleId> children;           // direct children in order of registration, shared ones included once
  int level = 0;                            // number of segments in path
  bool standard = false;                    // defined by torch.nn
  std::vector<ParameterId> own_parameters;  // parameters and buffers registered directly on it
  std::int64_t parameters_total = 0;        // elements of all distinct parameters at and below it
  std::int64_t parameters_trainable = 0;

  bool leaf() const { return children.empty(); }
};

// One call of one module: scopes form a tree, the path to the root is the call stack of modules.
// A parent stands before its children.
struct Scope {
  ScopeId parent = none_id;
  ModuleId module = root_module;
  std::int32_t call = 0;  // 0 for the module's first call in execution order, 1 for the second, ...

  bool operator==(const Scope&) const = default;
};

struct Frame {
  std::string file;
  std::int32_t line = 0;
  std::string function;   // empty when the archive does not say
  std::string text = {};  // the source line itself, without indentation; empty when the archive does not hold it

  bool operator==(const Frame&) const = default;
};

// "model.py:12 forward"; the function alone where the file is not known, as of native code without debug information.
std::string source_place(const Frame& frame);

// A source stack, innermost frame first. Frames of PyTorch's own call machinery are left out by the reader.
using Stack = std::vector<Frame>;

// The way in which an operation's scope became known. C++ modules do not announce themselves, so of their own
// operations it is concluded from the layers around them, and sometimes only a module around the right one is known.
enum class ScopeBasis : std::uint8_t { observed, inferred, enclosing };

struct Origin {
  std::int32_t op = none_id;  // index of the recorded operation: position in execution order, nested blocks included
  ScopeId scope = root_scope;
  StackId stack = none_id;
  std::string name;       // the front end's own node name (fx node, TorchScript debug name)
  std::string text = {};  // the fx node in one line, as torch.fx prints it; empty from TorchScript
  ScopeBasis basis = ScopeBasis::observed;
};

// ---- values -----------------------------------------------------------------------------------------------------

// A symbol stands for the length of an axis of an input, which the caller of the file chooses; a number that data
// decide, born at one operation; or what follows from others. A sidecar from before version 1.2 does not say.
enum class SymbolKind : std::uint8_t { unknown, axis, data, derived };

// A dynamic size with a name, e.g. "batch", or one that follows from such, "2*batch + 1": each distinct size of a
// program is one symbol. Its name is for people; what it is, its other fields say.
struct Symbol {
  std::string name;
  std::int64_t example = 0;  // its size in the first example run
  std::optional<std::int64_t> min = {}, max = {};
  SymbolKind kind = SymbolKind::axis;
  Size size = Size::unknown();  // a derived one's expression over symbols of the other kinds
};

struct Dim {
  std::int64_t size = -1;     // size in the example run; -1 when never seen
  bool dynamic = false;       // may differ at run time
  SymbolId symbol = none_id;  // set when dynamic and equal to a named size

  bool is_static() const { return !dynamic && size >= 0; }
  bool operator==(const Dim&) const = default;
};

// The same length in every run, whatever it is in the example.
bool same_length(const Dim& a, const Dim& b);

// A sequence is a list of tensors or numbers whose length the program decides; an optional is a tensor or None, as the
// data has it.
enum class ValueKind : std::uint8_t { tensor, integer, floating, boolean, string, opaque, sequence, optional };

constexpr bool is_scalar(ValueKind kind) {
  return kind != ValueKind::tensor && kind != ValueKind::sequence && kind != ValueKind::optional;
}

struct Type {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::undefined;  // a tensor's; a scalar's: int64, float64, boolean; or that of a sequence's elements
  std::optional<std::vector<Dim>> dims;  // tensors and optionals; absent when the rank is unknown
};

enum class ValueSource : std::uint8_t { node, input, parameter, constant, block_input };

struct Value {
  std::string name;  // the front end's name, unique within the program
  Type type;
  ValueSource source = ValueSource::node;
  std::int32_t index = none_id;  // into inputs, parameters or constants, by source
  ConstantId known = none_id;    // the value itself, when it depends on no input (folded by running PyTorch)

  // The constant that it is in every run; none_id if that is not known, as of parameters.
  ConstantId content() const { return source == ValueSource::constant ? ConstantId(index) : known; }
};

// A tensor or scalar that is part of the program. Scalars are stored as 0-d tensors (int64, float64, bool).
struct Constant {
  TensorData data;
  std::string name;               // archive member or front end's name, may be empty
  std::vector<std::int32_t> ops;  // the operations it was folded from; empty for constants that the model holds itself
  std::string digest = {};        // xxh3-128 of the bytes, when a sidecar left the bytes out; else empty
};

enum class ParameterKind : std::uint8_t { parameter, buffer, attribute };

// By these a weight is found again in a file that renamed, transposed or converted it: xxh3-128, 32 hex digits.
struct TensorDigests {
  std::string content;            // digest of the contiguous bytes; empty when not asked for
  std::string transposed;         // digest of the transpose, matrices only
  std::string float16, bfloat16;  // digests of the casts, float32 and float64 only
};

struct Parameter {
  std::string name;                  // canonical qualified name, "encoder.layer.0.attention.self.query.weight"
  std::vector<std::string> aliases;  // tied names
  ParameterKind kind = ParameterKind::parameter;
  bool trainable = false;  // requires_grad
  bool persistent = true;
  TensorData data;     // data.bytes.file() and offset() say where in the archive
  std::string member;  // archive member, "model/data/3"; empty when materialised
  TensorDigests digests;
  std::vector<std::int8_t> sketch;  // tensor_sketch.h; empty when not asked for
};

// The place of a tensor's elements in memory: one index further along an axis is a stride further. place.h works it
// out, by the rules of the operators that make views.
struct MemoryPlace {
  ValueId memory = none_id;          // the value that owns it
  Size offset;                       // the first element's, from the beginning of that memory
  std::vector<Size> sizes, strides;  // by axis

  bool operator==(const MemoryPlace&) const = default;
};

// A place that a reader saw and that does not follow from rules; none for a tensor that may lie in any way.
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
// device, layout, memory format: enumerations that never matter to ONNX, kept by name ("cpu", "strided").
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

// An argument of prim::If alone, and only where its sides leave tensors of different ranks: true where the example
// takes the first.
inline constexpr std::string_view example_argument = "taken_by_example";

// "aten::add.Tensor", "aten::linear"
std::string qualified(const Node& node);

// ---- the program ------------------------------------------------------------------------------------------------

struct ProgramInput {
  std::string name;  // argument name of forward, flattened for containers: "past.0"
  ValueId value = none_id;
};
struct ProgramOutput {
  std::string name;  // dict key or field where there is one, else empty
  Argument value;    // a value, or a constant the model returns
};

// One line of a graph signature, in torch.export's words.
struct SignatureEntry {
  std::string kind;                   // "PARAMETER", "USER_INPUT", "BUFFER_MUTATION", ...
  std::string name;                   // the graph's name of the value; empty for a constant
  std::optional<std::string> target;  // the parameter, buffer or input meant
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
  std::string digest;  // xxh3-128 of the whole file; empty where digests were not asked for
};

struct Program {
  SourceFile source;
  std::string producer;  // "whence 0.1.0, PyTorch 2.13.0"
  IndexedVector<ModuleId, Module> modules;
  IndexedVector<ScopeId, Scope> scopes;
  IndexedVector<StackId, Stack> stacks;
  IndexedVector<SymbolId, Symbol> symbols;
  std::vector<Constraint> constraints;  // assumed by decisions on sizes: elsewhere the model does something else
  IndexedVector<ParameterId, Parameter> parameters;
  IndexedVector<ConstantId, Constant> constants;
  IndexedVector<ValueId, Value> values;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  bool placed = false;  // the readers saw memory: a tensor is in it as operators make it, or as `places` says
  std::vector<StatedPlace> places;  // by value
  Signature signature;              // stated by a torch.export archive; empty from TorchScript
  Block body;
  bool ran = false;  // example inputs were run, so dtype and shape are known

  const std::string& module_path(ScopeId scope) const { return modules[scopes[scope].module].path; }
};

// The length of an axis as an expression over symbols that are not derived; unknown if nothing is known of it.
Size length_of(const IndexedVector<SymbolId, Symbol>& symbols, const Dim& dim);

// Names a derived symbol after those that it follows from: "2*batch + 1".
void name_derived(IndexedVector<SymbolId, Symbol>& symbols, SymbolId id);

// A number or flag that is known: a literal, or a value whose content is.
std::optional<std::int64_t> known_integer(const Program& program, const Argument& argument);
std::optional<bool> known_flag(const Program& program, const Argument& argument);

// The numbers that a symbol may have in a run: a length is 0 or more, unless its bounds say otherwise. That
// torch.export states a least length of 2 says nothing: it does so of every axis, whatever the model does.
SizeRange range_of(const Symbol& symbol);

// Notes that the file holds where this does.
void assume(Program& program, Constraint constraint);
// Some run that the program's constraints allow may give it this number.
bool may_be(const Program& program, const Size& size, std::int64_t number);

// The deepest scope that encloses all of `scopes`; scopes of different calls of one module meet above it.
ScopeId common_ancestor(const Program& program, const std::vector<ScopeId>& scopes);

// All operations in execution order, nested blocks in place; element i has origin.op == i in a program as read.
std::vector<const Node*> operations(const Program& program);

// Identifies what was recorded, whatever file form: digest over targets, scopes and parameter names.
std::string program_digest(const Program& program);

}  // namespace whence
