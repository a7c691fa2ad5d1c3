// Ctx: reads arguments, makes nodes and results. Shapes and sizes are in shapes.cpp, promotion in promotion.cpp.
#include "annotator/convert/ctx.h"

#include <algorithm>
#include <utility>

#include "annotator/convert/convert.h"
#include "annotator/program/program_facts.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/folding.h"

namespace whence::convert {

using graph::GraphValueId;
using program::integer_scalar;
using program::place_of;

namespace {

// Returns true if PyTorch treats the argument as a Python number: literals, scalar values, and the 0-d constants that
// tracing makes of numbers.
bool is_number(const Program& program, const Argument& argument) {
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr) return true;
  const Value& value = program.values[reference->id];
  if (value.type.kind != ValueKind::tensor) return true;
  if (value.source != ValueSource::constant) return false;
  const Constant& constant = program.constants[ConstantId(value.index)];
  const DType dtype = constant.data.dtype;
  const bool of_number = dtype == DType::float64 || dtype == DType::int64 || dtype == DType::boolean;
  return of_number && constant.data.shape.empty() && constant.ops.empty();
}

}  // namespace

Ctx::Ctx(ConvertSession& session, const Node& node, const OpSchema& schema)
    : session_(session), node_(node), schema_(schema) {
  for (const NamedArgument& argument : node.arguments) {
    if (schema.find(argument.name) == nullptr) {
      const auto* list = argument.value.as<ValueRef>();
      if (list != nullptr && session.program().values[list->id].type.kind == ValueKind::opaque) {
        refuse("the length of its list argument is unknown because the example inputs never reach it",
               "pass example inputs for which the model runs this operator");
      }
      refuse("argument '" + argument.name + "' is not part of " + schema.key() + " in whence",
             "record the model with the PyTorch version whence was built with");
    }
  }
}

// ---- arguments --------------------------------------------------------------------------------------------------

const Argument& Ctx::argument(std::string_view name) const {
  if (const Argument* node_argument = node_.find(name)) {
    if (is_sequence(*node_argument)) {
      refuse("argument '" + std::string(name) + "' is a list whose length depends on data",
             "make it one tensor first, with torch.stack or torch.cat");
    }
    return *node_argument;
  }
  const SchemaArgument* declared = schema_.find(name);
  if (declared == nullptr) {
    throw Error(Code::internal,
                "the converter of " + schema_.key() + " reads the unknown argument '" + std::string(name) + "'",
                "please report this", place_of(session_.program(), node_, "convert"));
  }
  if (!declared->default_value) {
    refuse("argument '" + std::string(name) + "' is missing", "record the model again");
  }
  return *declared->default_value;
}

std::optional<TensorData> Ctx::known(const Argument& argument) const {
  if (const auto* reference = argument.as<ValueRef>()) {
    if (const TensorData* data = session_.known(reference->id)) return *data;
    // Computed from constants only: a converter folded it.
    const TensorData* data = session_.graph().constant(session_.value_of(reference->id));
    return data == nullptr ? std::nullopt : std::optional<TensorData>(*data);
  }
  if (const auto* integer = argument.as<std::int64_t>()) return integer_scalar(*integer, DType::int64);
  if (const auto* number = argument.as<double>()) return program::number_scalar(*number, DType::float64);
  if (const auto* flag = argument.as<bool>()) return integer_scalar(*flag ? 1 : 0, DType::boolean);
  return std::nullopt;
}

bool Ctx::has(std::string_view name) const { return !argument(name).is_none(); }

Val Ctx::value_of(const Argument& argument) {
  if (argument.as<ComplexNumber>() != nullptr) {
    refuse("ONNX operators do not take complex numbers", "compute with real and imaginary parts");
  }
  const Val value{session_.value_of(argument)};
  if (is_number(session_.program(), argument)) wrapped_.push_back(value);
  return value;
}

Val Ctx::tensor(std::string_view name) {
  const Argument& argument_value = argument(name);
  if (argument_value.is_none()) refuse("argument '" + std::string(name) + "' is None", "pass a tensor");
  return value_of(argument_value);
}

Val Ctx::optional_tensor(std::string_view name) { return has(name) ? tensor(name) : absent; }

std::vector<Val> Ctx::tensors(std::string_view name) {
  std::vector<Val> values = optional_tensors(name);
  if (std::find(values.begin(), values.end(), absent) != values.end()) {
    refuse("argument '" + std::string(name) + "' holds None", "pass tensors only");
  }
  return values;
}

Val Ctx::sequence(std::string_view name) {
  const Argument* argument_value = node_.find(name);
  return argument_value != nullptr && is_sequence(*argument_value) ? Val{session_.value_of(*argument_value)} : absent;
}

bool Ctx::is_sequence(const Argument& argument) const {
  const auto* reference = argument.as<ValueRef>();
  return reference != nullptr && session_.program().values[reference->id].type.kind == ValueKind::sequence;
}

std::vector<Val> Ctx::optional_tensors(std::string_view name) {
  const Argument& argument_value = argument(name);
  std::vector<Val> values;
  if (const auto* list = argument_value.as<ArgumentList>()) {
    for (const Argument& element : *list) values.push_back(element.is_none() ? absent : value_of(element));
  } else if (!argument_value.is_none()) {
    values.push_back(value_of(argument_value));
  }
  return values;
}

std::int64_t Ctx::integer(std::string_view name) {
  if (const auto data = known(argument(name))) {
    if (const auto value = single_integer(*data)) return *value;
  }
  refuse("argument '" + std::string(name) + "' is not an integer known at export",
         "make it a constant; if it depends on a dynamic axis, leave that one out of --dynamic");
}

std::int64_t Ctx::count(std::string_view name, std::int64_t least) {
  const std::int64_t value = integer(name);
  require_count(name, value, least);
  return value;
}

Ints Ctx::counts(std::string_view name, std::size_t axes, std::int64_t least) {
  Ints values = integers(name);
  if (values.size() == 1) values.resize(axes, values.front());
  expect(values.size() == axes, "'" + std::string(name) + "' must have one number, or one for each spatial axis");
  for (const std::int64_t value : values) require_count(name, value, least);
  return values;
}

void Ctx::require_count(std::string_view name, std::int64_t value, std::int64_t least) const {
  expect(value >= least, "'" + std::string(name) + "' must be at least " + std::to_string(least));
  if (value > max_count)
    refuse("'" + std::string(name) + "' is too large: " + std::to_string(value), "use a smaller number");
}

double Ctx::number(std::string_view name) {
  if (const auto data = known(argument(name))) {
    if (const auto value = program::single_number(*data)) return *value;
  }
  refuse("argument '" + std::string(name) + "' is not a number known at export", "make it a constant");
}

bool Ctx::flag(std::string_view name) {
  if (const auto data = known(argument(name))) {
    if (const auto value = single_integer(*data)) return *value != 0;
  }
  refuse("argument '" + std::string(name) + "' is not a flag known at export", "make it a constant");
}

std::string Ctx::text(std::string_view name) {
  if (const auto* value = argument(name).as<std::string>()) return *value;
  refuse("argument '" + std::string(name) + "' is not a string known at export", "make it a constant");
}

std::string Ctx::one_of(std::string_view name, std::initializer_list<std::string_view> allowed) {
  std::string value = text(name);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  std::string choices;
  for (const std::string_view choice : allowed) choices += (choices.empty() ? "'" : ", '") + std::string(choice) + "'";
  refuse("argument '" + std::string(name) + "' is '" + value + "'", "use one of " + choices);
}

Ints Ctx::integers(std::string_view name) {
  Ints values;
  for (const Size& size : sizes(name)) {
    const auto value = static_size(size);
    if (!value) {
      refuse("argument '" + std::string(name) + "' holds a size that is not known at export",
             "make it a constant; if it depends on a dynamic axis, leave that one out of --dynamic");
    }
    values.push_back(*value);
  }
  return values;
}

std::vector<Size> Ctx::sizes(std::string_view name) {
  const Argument& argument_value = argument(name);
  const SchemaArgument& declared = *schema_.find(name);
  const auto stated = static_cast<std::size_t>(declared.type.list_size);  // "int[1]" is a list of any length
  std::vector<Size> sizes;
  if (const auto* list = argument_value.as<ArgumentList>()) {
    for (const Argument& element : *list) sizes.push_back(size_of(element, name));
    if (declared.default_value && *declared.default_value == argument_value) return sizes;
  } else if (argument_value.is_none()) {
    expect(declared.type.optional, "argument '" + std::string(name) + "' is None");
    return sizes;
  } else {
    const auto data = known(argument_value);
    const auto elements = data && data->shape.size() == 1 ? program::Elements::of(*data) : std::nullopt;
    for (std::size_t i = 0; elements && i < elements->size(); ++i) sizes.emplace_back(elements->integer(i));
    if (!elements) sizes.push_back(size_of(argument_value, name));
  }
  if (stated < 2) return sizes;
  // One int passed for int[2] applies to both.
  if (sizes.size() == 1) sizes.resize(stated, sizes.front());
  expect(sizes.size() == stated, "'" + std::string(name) + "' must have " + std::to_string(stated) + " numbers");
  return sizes;
}

Size Ctx::size(std::string_view name) { return size_of(argument(name), name); }

Size Ctx::size_of(const Argument& argument, std::string_view name) {
  if (const auto data = known(argument)) {
    if (const auto value = single_integer(*data)) return *value;
  }
  if (argument.as<ValueRef>() == nullptr) {
    refuse("argument '" + std::string(name) + "' is not an integer", "pass an integer");
  }
  return cast(Val{session_.value_of(argument)}, DType::int64);
}

Val Ctx::scalar(std::string_view name, DType dtype) { return cast(value_of(argument(name)), dtype); }

// ---- facts about values ------------------------------------------------------------------------------------------

DType Ctx::dtype(Val value) const { return session_.graph().values[value.id].dtype; }

const TensorData* Ctx::constant(Val value) const { return session_.graph().constant(value.id); }

const TrackedOpset& Ctx::opset() const { return session_.opset(); }
bool Ctx::writes(std::string_view op_type) const {
  return opset().answer([&](int opset) { return operators::writes(op_type, opset, session_.operator_forms()); });
}

DType Ctx::output_dtype(int index) const {
  if (index >= output_count()) return DType::undefined;
  return session_.program().values[node_.outputs[index]].type.dtype;
}

std::optional<Dims> Ctx::output_dims(int index) const {
  if (index >= output_count()) return std::nullopt;
  const auto& dims = session_.program().values[node_.outputs[index]].type.dims;
  return dims ? std::optional<Dims>(*dims) : std::nullopt;
}

bool Ctx::yields_sequence() const {
  return output_count() == 1 && session_.program().values[node_.outputs[0]].type.kind == ValueKind::sequence;
}

int Ctx::output_count() const { return static_cast<int>(node_.outputs.size()); }

bool Ctx::result_used(int index) const {
  return index < output_count() && !session_.uses().of(node_.outputs[index]).empty();
}

// ---- making nodes -----------------------------------------------------------------------------------------------

Val Ctx::emit(std::string_view op_type, std::vector<Val> inputs, Attributes attributes) {
  return emit_many(op_type, std::move(inputs), std::move(attributes), 1).front();
}

std::vector<Val> Ctx::emit_many(std::string_view op_type, std::vector<Val> inputs, Attributes attributes, int outputs) {
  std::vector<GraphValueId> ids;
  for (const Val input : inputs) ids.push_back(input.id);
  std::vector<Val> results;
  for (const GraphValueId id : session_.emit("", op_type, std::move(ids), std::move(attributes), outputs)) {
    results.push_back(Val{id});
  }
  return results;
}

Val Ctx::typed(Val value, DType dtype, std::optional<std::vector<Dim>> dims) {
  graph::GraphValue& graph_value = session_.graph().values[value.id];
  graph_value.dtype = dtype;
  if (dims) graph_value.dims = std::move(dims);
  return value;
}

Val Ctx::constant_ints(const Ints& values) { return constant_tensor(program::integer_vector(values)); }
Val Ctx::constant_int(std::int64_t value) { return constant_tensor(integer_scalar(value, DType::int64)); }
Val Ctx::constant_tensor(TensorData data) { return Val{session_.constant(std::move(data))}; }

Val Ctx::constant_number(double value, DType dtype) {
  if (!program::has_number_form(dtype))
    refuse("a constant of dtype " + std::string(name_of(dtype)) + " is not supported", "use another dtype");
  return constant_tensor(program::number_scalar(value, dtype));
}

Val Ctx::cast(Val value, DType dtype) {
  // The dtype is unknown if no example input reached the operation, for example in a branch for other sizes.
  if (this->dtype(value) == dtype || dtype == DType::undefined) return value;
  if (is_complex(dtype) || is_complex(this->dtype(value))) {
    refuse("ONNX operators do not compute with complex numbers", "compute with real and imaginary parts");
  }
  const auto is_float8 = [](DType type) { return whence::is_floating(type) && whence::size_of(type) == 1; };
  if (opset() < 19 && (is_float8(dtype) || is_float8(this->dtype(value)))) {
    refuse("ONNX has float8 from opset 19", "export with --opset 19 or newer");
  }
  const TensorData* data = constant(value);
  const bool unnamed = session_.graph().values[value.id].name.empty();
  const std::uint64_t bytes = data == nullptr ? 0 : data->element_count() * whence::size_of(dtype);
  if (data != nullptr && unnamed && may_store_additionally(*data, bytes)) {
    if (auto folded = program::cast_tensor(*data, dtype)) return constant_tensor(std::move(*folded));
  }
  return emit("Cast", {value}, {{"to", static_cast<std::int64_t>(to_onnx(dtype))}});
}

std::vector<Val> Ctx::loop(Val count, const std::vector<Val>& initial, const LoopBody& body) {
  const auto typed_as = [&](GraphValueId id) {
    const graph::GraphValue& value = session_.graph().values[id];
    graph::GraphValue input;
    input.dtype = value.dtype;
    input.dims = value.dims;
    return input;
  };
  std::vector<graph::GraphValue> inputs;
  std::vector<GraphValueId> ids = {count.id, graph::no_value};
  for (const Val value : initial) {
    inputs.push_back(typed_as(value.id));
    ids.push_back(value.id);
  }
  session_.open_body();
  const Val iteration{session_.add_body_input(graph_value({ValueKind::integer, DType::int64, std::vector<Dim>()}))};
  const GraphValueId condition =
      session_.add_body_input(graph_value({ValueKind::boolean, DType::boolean, std::vector<Dim>()}));
  std::vector<Val> carried;
  for (const graph::GraphValue& input : inputs) carried.push_back(Val{session_.add_body_input(input)});
  const std::vector<Val> next = body(iteration, carried);
  session_.add_body_output(condition);
  for (const Val value : next) session_.add_body_output(value.id);
  const auto graph = session_.close_body();
  std::vector<Val> last;
  for (const GraphValueId id : session_.emit("", "Loop", ids, {{"body", graph}}, static_cast<int>(initial.size()))) {
    graph::GraphValue& value = session_.graph().values[id];
    value.dtype = inputs[last.size()].dtype;
    value.dims = inputs[last.size()].dims;
    last.push_back(Val{id});
  }
  return last;
}

Val Ctx::from_enclosing(Val value) { return Val{session_.from_enclosing(value.id)}; }

// ---- results ----------------------------------------------------------------------------------------------------

void Ctx::yield(Val value) { yield(std::vector<Val>{value}); }

void Ctx::yield(const std::vector<Val>& values) {
  if (node_.list_output && values.size() != node_.outputs.size()) {
    throw Error(session_.program().source.kind == "torch.export" ? Code::corrupt_file : Code::internal,
                "the converter of " + schema_.key() + " yields " + std::to_string(values.size()) + " of " +
                    std::to_string(node_.outputs.size()) + " list elements",
                "save the model again; if that does not help, please report this",
                place_of(session_.program(), node_, "convert"));
  }
  for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
    Val value = i < values.size() ? values[i] : absent;
    if (value) {
      const DType recorded = output_dtype(static_cast<int>(i));
      const bool known = recorded != DType::undefined && dtype(value) != DType::undefined;
      // An ONNX operator may compute in a dtype other than PyTorch's, on which later operators rely.
      if (known && !is_complex(recorded)) value = cast(value, recorded);
    }
    session_.bind(node_.outputs[i], value.id);
  }
}

void Ctx::refuse(const std::string& why, const std::string& remedy) const {
  throw Error(Code::converter_refused, schema_.key() + ": " + why, remedy,
              place_of(session_.program(), node_, "convert"));
}

bool Ctx::table_fits(const Ints& sizes) const {
  constexpr std::int64_t longest = std::int64_t{1} << 24U;
  return element_count(sizes) <= longest;
}

std::size_t Ctx::table_size(const Ints& sizes) const {
  for (const std::int64_t size : sizes) expect(size >= 0, "sizes must not be negative");
  if (!table_fits(sizes)) refuse("it needs a table of more than 16,777,216 elements in the file", "use smaller sizes");
  return static_cast<std::size_t>(element_count(sizes));
}

graph::Graph& Ctx::graph() { return session_.graph(); }

}  // namespace whence::convert
