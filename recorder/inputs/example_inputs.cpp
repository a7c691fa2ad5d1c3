#include "recorder/inputs/example_inputs.h"

#include <algorithm>

#include "recorder/archive/module_tree.h"
#include "recorder/base/torch_error.h"
#include "recorder/inputs/leaves.h"
#include "schema/operator_facts.h"

namespace whence::recorder::inputs {

void mismatch(const std::string& message, const std::string& remedy) {
  throw Error(Code::input_mismatch, message, remedy, {.stage = "run"});
}

namespace {

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The limit for a generated input: more elements are a mistake, and no machine would run them.
constexpr double max_elements = 2e9;

void check_size(const std::vector<std::int64_t>& dims) {
  double elements = 1;
  std::string text;
  for (const std::int64_t dim : dims) {
    elements *= static_cast<double>(dim);
    text += (text.empty() ? "" : ",") + std::to_string(dim);
  }
  if (elements <= max_elements) return;
  throw Error(Code::over_limit, "an example input of shape [" + text + "] is too large to make", "use a smaller shape",
              {.stage = "run"});
}

at::Tensor random_tensor(const std::vector<std::int64_t>& dims, DType dtype, std::optional<double> low,
                         std::optional<double> high, at::Generator generator) {
  check_size(dims);
  const auto type = static_cast<at::ScalarType>(to_scalar_type(dtype));
  if (dtype == DType::boolean) return at::randint(0, 2, dims, generator, at::kLong).to(at::kBool);
  if (is_integral(dtype)) {
    const auto from = static_cast<std::int64_t>(low.value_or(0)), to = static_cast<std::int64_t>(high.value_or(2));
    return at::randint(from, std::max(to, from + 1), dims, generator, at::kLong).to(type);
  }
  if (!low && !high) return at::randn(dims, generator, at::kFloat).to(type);
  const double from = low.value_or(0), to = high.value_or(from + 1);
  return (at::rand(dims, generator, at::kFloat) * (to - from) + from).to(type);
}

// Returns a traced input with random values; it has only dtypes and shapes. Follows containers.
c10::IValue with_values(const c10::IValue& shape, at::Generator generator) {
  return map_tensors(shape, [&](const at::Tensor& tensor) {
    return random_tensor(tensor.sizes().vec(), archive::dtype_of(tensor), {}, {}, generator);
  });
}

c10::IValue read_saved(const std::string& path) {
  const auto file = MappedFile::open(path);
  try {
    return torch::jit::pickle_load(std::vector<char>(file->text().begin(), file->text().end()));
  } catch (const std::exception& error) {
    throw Error(
        Code::wrong_kind, "cannot read example inputs: " + torch_message(error),
        "save a tensor, a tuple or a dict of tensors with torch.save, or arrays with numpy.savez; save a clone() of "
        "a tensor that torch.export or torch.compile marked as dynamic",
        {.file = path, .stage = "read"});
  }
}

// Converts tensors with one element to Python numbers if forward declares them, also in lists: files and specifications
// contain only tensors.
c10::IValue as_declared(const c10::IValue& example, const c10::Type& declared) {
  if (declared.kind() == c10::TypeKind::ListType && example.isList()) {
    const c10::TypePtr& element = declared.expectRef<c10::ListType>().getElementType();
    if (!element->isSubtypeOf(*c10::NumberType::get()) && element->kind() != c10::TypeKind::BoolType) return example;
    c10::impl::GenericList converted(element);
    for (const c10::IValue& each : example.toListRef()) converted.push_back(as_declared(each, *element));
    return converted;
  }
  if (!example.isTensor() || example.toTensor().numel() != 1) return example;
  const at::Tensor& tensor = example.toTensor();
  switch (declared.kind()) {
    case c10::TypeKind::IntType:
      return tensor.item().toLong();
    case c10::TypeKind::FloatType:
      return tensor.item().toDouble();
    case c10::TypeKind::BoolType:
      return tensor.item().toBool();
    default:
      return example;
  }
}

using Named = std::vector<std::pair<std::string, c10::IValue>>;  // empty name: by position

// True for a dict by argument names. A dict with keys that are not strings is itself an argument.
bool is_dict_by_name(const c10::IValue& value) {
  if (!value.isGenericDict()) return false;
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString()) return false;
  }
  return true;
}

Named from_file(const std::string& path, std::size_t argument_count) {
  Named examples;
  if (path.ends_with(".npz")) {
    for (auto& [name, tensor] : read_npz(path)) examples.emplace_back(name, tensor);
    return examples;
  }
  const c10::IValue value = read_saved(path);
  if (is_dict_by_name(value)) {
    for (const auto& entry : value.toGenericDict()) examples.emplace_back(entry.key().toStringRef(), entry.value());
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) examples.emplace_back("", element);
  } else if (value.isList() && argument_count != 1) {
    for (const c10::IValue& element : value.toListRef()) examples.emplace_back("", element);
  } else {
    examples.emplace_back("", value);
  }
  return examples;
}

// True for a positional value. numpy names positional arrays arr_0, arr_1, ...
bool positional(const std::string& name, std::size_t index) {
  return name.empty() || name == "arr_" + std::to_string(index);
}

// Returns true if the program reshapes the input in place (x.unsqueeze_(0)): a trace stores its inputs as they are at
// its end.
bool is_reshaped_in_place(const torch::jit::Value& input) {
  return std::ranges::any_of(input.uses(), [](const torch::jit::Use& use) {
    const std::string target = use.user->kind().toQualString();
    return use.offset == 0 && is_in_place_name(target) &&
           facts_of(target.substr(0, target.size() - 1)).view != ViewForm::none;
  });
}

void check_against_trace(const std::string& name, const c10::IValue& example, const c10::IValue& traced) {
  if (!example.isTensor() || !traced.isTensor()) return;
  const at::Tensor &a = example.toTensor(), &b = traced.toTensor();
  if (a.scalar_type() != b.scalar_type()) {
    mismatch("input '" + name + "' has dtype " + std::string(name_of(archive::dtype_of(a))) +
                 ", the model was traced with " + std::string(name_of(archive::dtype_of(b))),
             "pass --input '" + name + "=" + std::string(name_of(archive::dtype_of(b))) + "[...]'");
  }
  if (a.dim() != b.dim()) {
    mismatch("input '" + name + "' has rank " + std::to_string(a.dim()) + ", the model was traced with rank " +
                 std::to_string(b.dim()),
             "specify " + std::to_string(b.dim()) + " dimensions");
  }
}

}  // namespace

std::size_t ExampleInputs::position_of(const std::string& name) const { return place_of(name).argument; }

ExampleInputs::Place ExampleInputs::place_of(const std::string& name) const {
  const auto argument = std::find(names.begin(), names.end(), name);
  if (argument != names.end()) return {static_cast<std::size_t>(argument - names.begin()), 0};
  std::string parts;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<Leaf> found = leaves(arguments[i][0], names[i]);
    for (std::size_t k = 0; k < found.size(); ++k, ++seen) {
      if (found[k].name == name || (seen < graph_names.size() && graph_names[seen] == name)) return {i, k};
    }
    if (!found.empty() && !arguments[i][0].isTensor()) parts += ", " + found.front().name;
  }
  mismatch("forward has no argument '" + name + "'",
           "its arguments are: " + joined_names(names) +
               (parts.empty() ? "" : "; tensors in them have names such as" + parts.substr(1)));
}

ExampleInputs make_inputs(archive::Archive& archive, const ReadOptions& options, int attempt) {
  ExampleInputs inputs;
  const torch::jit::Method forward = archive.module().get_method("forward");
  const auto& schema = forward.function().getSchema();
  inputs.graph_names = options.input_names;
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) inputs.names.push_back(schema.arguments()[i].name());
  const std::size_t count = inputs.names.size();

  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const c10::IValue traced = archive.traced_inputs();
  std::vector<std::optional<c10::IValue>> chosen(count);

  Named examples;
  if (!options.inputs_file.empty()) examples = from_file(options.inputs_file, count);
  for (const InputSpec& spec : options.inputs) {
    examples.emplace_back(spec.name, random_tensor(spec.dims, spec.dtype, spec.low, spec.high, generator));
  }
  if (examples.size() > count) {
    mismatch(std::to_string(examples.size()) + " example inputs were passed, forward takes " + std::to_string(count),
             "its arguments are: " + joined_names(inputs.names));
  }
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const bool known = std::find(inputs.names.begin(), inputs.names.end(), examples[i].first) != inputs.names.end();
    const std::size_t at = !known && positional(examples[i].first, i) ? i : inputs.position_of(examples[i].first);
    chosen[at] = as_declared(examples[i].second, *schema.arguments()[at + 1].type());
  }
  inputs.available = options.run && (!examples.empty() || !traced.isNone() || count == 0);
  if (!inputs.available) return inputs;

  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue shape = traced.isNone() || i >= traced.toListRef().size() ? c10::IValue() : traced.toListRef()[i];
    if (chosen[i]) {
      // The trace stores the final shape of an input that is reshaped in place.
      const bool is_trace_shape = !is_reshaped_in_place(*forward.graph()->inputs()[i + 1]);
      if (is_trace_shape) check_against_trace(inputs.names[i], *chosen[i], shape);
    } else if (!shape.isNone()) {
      chosen[i] = with_values(shape, generator);
    } else if (schema.arguments()[i + 1].default_value()) {
      chosen[i] = *schema.arguments()[i + 1].default_value();
      inputs.defaulted_arguments.insert(i);
    } else if (traced.isNone() || i >= traced.toListRef().size()) {
      mismatch("no example was passed for input '" + inputs.names[i] + "'",
               "pass --input '" + inputs.names[i] + "=float32[...]', or all of them with --inputs");
    } else {
      chosen[i] = c10::IValue();  // traced as None
    }
    inputs.arguments.emplace_back().fill(*chosen[i]);
  }
  apply_dynamic_axes(inputs, options.dynamic, attempt);
  return inputs;
}

}  // namespace whence::recorder::inputs
