#include "recorder/script/quantized.h"

#include "recorder/base/torch_error.h"
#include "recorder/program/finish.h"
#include "schema/program_walk.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Returns true if the operator returns tensors. Other operators read a size or a dtype, which the tensor of integers
// also has.
bool returns_tensors(const jit::Node& node) {
  if (node.kind() == c10::Symbol::fromQualString("aten::int_repr")) return false;
  for (const jit::Value* output : node.outputs()) {
    if (output->type()->isSubtypeOf(*c10::TensorType::get())) return true;
    if (output->type()->isSubtypeOf(*c10::ListType::ofTensors())) return true;
  }
  return false;
}

// True for the operators that make a quantized tensor of floats.
bool quantizes_floats(const std::string& target) {
  return target == "aten::quantize_per_tensor" || target == "aten::quantize_per_channel";
}

Type scalar_type(DType dtype) { return {ValueKind::tensor, dtype, std::vector<Dim>()}; }

}  // namespace

// ---- scale and zero point

std::optional<Levels> Quantized::levels_of(const at::Tensor& tensor) {
  auto levels = integer_range(tensor);
  if (!levels) return std::nullopt;
  const auto value = [&](const at::Tensor& numbers, at::ScalarType dtype, const char* name) -> Argument {
    return {ValueRef{objects_.constant(numbers.to(dtype), name).id}};
  };
  if (is_per_tensor(tensor)) {
    levels->scale = {tensor.q_scale()};
    levels->zero_point = {tensor.q_zero_point()};
    return levels;
  }
  if (tensor.qscheme() != at::kPerChannelAffine && tensor.qscheme() != at::kPerChannelSymmetric) return std::nullopt;
  levels->scale = value(tensor.q_per_channel_scales(), at::kFloat, "scale");
  levels->zero_point = value(tensor.q_per_channel_zero_points(), at::kLong, "zero_point");
  levels->axis = tensor.q_per_channel_axis();
  return levels;
}

void Quantized::set_levels(ValueId id, Levels levels, const Term& term) {
  levels_[id] = std::move(levels);
  in_first_run_[id] = term.seen[0]->toTensor();
}

const Levels* Quantized::levels_at(ValueId id) const {
  const auto found = levels_.find(current_value(id));
  return found == levels_.end() ? nullptr : &found->second;
}

Term Quantized::input(Term term, const std::string& name) {
  auto levels = levels_of(term.seen[0]->toTensor());
  if (!levels || levels->axis) return term;
  std::vector<ProgramInput>& inputs = recording_.program.inputs;
  const auto number = [&](const char* suffix, DType dtype) -> Argument {
    const auto index = static_cast<std::int32_t>(inputs.size());
    inputs.push_back({name + suffix, none_id});
    inputs.back().value = recording_.values.add(name + suffix, ValueSource::input, scalar_type(dtype), index);
    return {ValueRef{inputs.back().value}};
  };
  levels->scale = number("_scale", DType::float64);
  levels->zero_point = number("_zero_point", DType::int64);
  recording_.values.type(term.id).dtype = levels->dtype;
  set_levels(term.id, std::move(*levels), term);
  return term;
}

Term Quantized::output(const Term& term) {
  if (term.items) {
    std::vector<Term> items;
    for (const Term& item : *term.items) items.push_back(output(item));
    return Term::container(term.kind, std::move(items), term.depth);
  }
  const Levels* found = term.is_value() ? levels_at(term.id) : nullptr;
  if (found == nullptr || found->axis) return term;
  const Levels levels = *found;
  Term integers = term;
  integers.id = current_value(term.id);
  const auto part = [&](const Argument& number, DType dtype, const char* name) {
    const auto type = static_cast<at::ScalarType>(to_scalar_type(dtype));
    if (const auto* value = number.as<double>()) return objects_.constant(at::scalar_tensor(*value, type), name);
    if (const auto* value = number.as<std::int64_t>()) return objects_.constant(at::scalar_tensor(*value, type), name);
    return Term::of_value(write({}, "aten::to", "dtype",
                                {{"self", number}, {"dtype", {dtype}}, {"non_blocking", {false}}, {"copy", {false}}},
                                scalar_type(dtype)));
  };
  const Term scale = part(levels.scale, DType::float32, "scale");
  return Term::container(Term::Kind::tuple, {integers, scale, part(levels.zero_point, levels.dtype, "zero_point")});
}

// Returns the current value of a quantized tensor: the result of the last write in place.
ValueId Quantized::current_value(ValueId id) const {
  for (auto next = rewritten_.find(id); next != rewritten_.end(); next = rewritten_.find(id)) id = next->second;
  return id;
}

// ---- writing nodes

ValueId Quantized::write(const Origin& origin, const std::string& target, const std::string& overload,
                         std::vector<NamedArgument> arguments, Type type) {
  Node node;
  node.target = target;
  node.overload = overload;
  node.arguments = std::move(arguments);
  node.origin = origin;
  return recording_.write(std::move(node), target.substr(target.find("::") + 2), std::move(type));
}

ValueId Quantized::convert_levels(const Origin& origin, const char* verb, ValueId id, const Levels& levels,
                                  DType dtype) {
  Type type = recording_.values.type(id);
  type.dtype = dtype;
  std::vector<NamedArgument> arguments{{"input", {ValueRef{id}}}};
  std::string overload;
  if (levels.axis) {
    arguments.push_back({"scales", levels.scale});
    arguments.push_back({"zero_points", levels.zero_point});
    arguments.push_back({"axis", {*levels.axis}});
  } else {
    if (levels.scale.as<ValueRef>() != nullptr) overload = "tensor";
    arguments.push_back({"scale", levels.scale});
    arguments.push_back({"zero_point", levels.zero_point});
  }
  arguments.push_back({"quant_min", {levels.low}});
  arguments.push_back({"quant_max", {levels.high}});
  arguments.push_back({"dtype", {levels.dtype}});
  const std::string target =
      std::string("quantized_decomposed::") + verb + (levels.axis ? "_per_channel" : "_per_tensor");
  return write(origin, target, overload, std::move(arguments), type);
}

// Returns the argument with its quantized tensors dequantized.
Argument Quantized::dequantized(const Origin& origin, const Argument& argument) {
  if (const auto* list = argument.as<ArgumentList>()) {
    ArgumentList floats;
    for (const Argument& item : *list) floats.push_back(dequantized(origin, item));
    return {std::move(floats)};
  }
  const auto* value = argument.as<ValueRef>();
  if (value == nullptr) return argument;
  const Levels* levels = levels_at(value->id);
  if (levels == nullptr) return argument;
  return {ValueRef{convert_levels(origin, "dequantize", current_value(value->id), *levels, DType::float32)}};
}

// Rounds the bias as the kernels do: to multiples of input scale times weight scale.
at::Tensor Quantized::rounded_bias(const at::Tensor& bias, const at::Tensor& weight, const Argument& input) const {
  const auto* value = input.as<ValueRef>();
  const Levels* levels = value == nullptr ? nullptr : levels_at(value->id);
  const double* scale = levels == nullptr ? nullptr : levels->scale.as<double>();
  if (scale == nullptr) return bias;
  const at::Tensor weight_scale = is_per_tensor(weight) ? at::scalar_tensor(weight.q_scale(), at::kDouble)
                                                        : weight.q_per_channel_scales().to(at::kDouble);
  const at::Tensor unit = weight_scale * *scale;
  return (at::round(bias.to(at::kDouble) / unit) * unit).to(at::kFloat);
}

// Returns the weight of a packed layer as dequantized integers, and the bias in floats.
std::pair<Argument, Argument> Quantized::unpacked(const Origin& origin, const std::string& unpack, const Term& packed,
                                                  const Argument& input) {
  const std::vector<c10::IValue> parts = call_on_packed(unpack, packed.object);
  const at::Tensor weight = parts.at(0).toTensor();
  auto levels = levels_of(weight);
  if (!levels) return {Argument{None{}}, Argument{None{}}};
  const std::string& path = recording_.program.module_path(origin.scope);
  const std::string name = path.empty() ? "" : path + ".";
  const auto [place, first] = packed_weights_.try_emplace(packed.object.get(), none_id);
  if (first) {
    place->second = objects_.constant(weight.int_repr(), name + "weight").id;
    levels_[place->second] = std::move(*levels);
  }
  Argument bias{None{}};
  if (parts.at(1).isTensor() && parts.at(1).toTensor().defined()) {
    const at::Tensor values = rounded_bias(parts.at(1).toTensor().detach().to(at::kFloat), weight, input);
    bias = {ValueRef{objects_.constant(values, name + "bias").id}};
  }
  return {dequantized(origin, {ValueRef{place->second}}), bias};
}

// ---- the operators

// Returns the float operator of a linear layer or convolution, with weight and bias unpacked; empty for other
// operators.
std::optional<Node> Quantized::packed_layer(const Origin& origin, const std::string& name,
                                            const std::vector<Term>& arguments) {
  const bool linear = name == "linear", transposed = name.starts_with("conv_transpose");
  if (!linear && (!name.starts_with("conv") || arguments.size() < 2)) return std::nullopt;
  if (arguments[1].kind != Term::Kind::object) return std::nullopt;
  const Argument input = program::argument(arguments[0], nullptr);
  const auto [weight, bias] = unpacked(origin, std::string(quantized_space) + name + "_unpack", arguments[1], input);
  if (weight.is_none()) return std::nullopt;
  Node node;
  node.origin = origin;
  node.target = "aten::" + name;
  node.arguments = {{"input", dequantized(origin, input)}, {"weight", weight}, {"bias", bias}};
  if (linear) return node;
  // A convolution over one dimension is packed as one over two, the first of which has size 1.
  const char rank = name[name.size() - 2];
  node.target = std::string(transposed ? "aten::conv_transpose" : "aten::conv") + rank + "d";
  if (transposed) node.overload = rank == '1' ? "" : "input";
  const std::string prefix =
      std::string(quantized_space) + (transposed ? "conv_transpose" : "conv") + (rank == '1' ? '2' : rank) + "d_";
  const auto numbers = [&](const char* what) {
    ArgumentList list;
    for (const std::int64_t number : call_on_packed(prefix + what, arguments[1].object).at(0).toIntVector())
      list.push_back({number});
    if (rank == '1') list.erase(list.begin());
    return Argument{std::move(list)};
  };
  node.arguments.push_back({"stride", numbers("stride")});
  node.arguments.push_back({"padding", numbers("padding")});
  if (transposed) node.arguments.push_back({"output_padding", numbers("output_padding")});
  node.arguments.push_back({"groups", {call_on_packed(prefix + "groups", arguments[1].object).at(0).toInt()}});
  node.arguments.push_back({"dilation", numbers("dilation")});
  return node;
}

// Returns the operator on floats with dequantized arguments; empty if there is no float form.
std::optional<Node> Quantized::float_operation(const Node& operation, const std::string& name,
                                               const std::vector<Term>& arguments) {
  if (operation.target.starts_with(quantized_space)) {
    if (auto layer = packed_layer(operation.origin, name, arguments)) return layer;
    const FloatForm* form = float_form(name);
    if (form == nullptr) return std::nullopt;
    Node node;
    node.target = form->target;
    node.overload = form->overload;
    node.origin = operation.origin;
    for (const auto& [quantized, aten] : form->names) {
      if (const Argument* argument = operation.find(quantized)) {
        node.arguments.push_back({std::string(aten), dequantized(operation.origin, *argument)});
      }
    }
    node.arguments.insert(node.arguments.end(), form->constants.begin(), form->constants.end());
    return node;
  }
  Node node = operation;
  for (NamedArgument& argument : node.arguments) argument.value = dequantized(operation.origin, argument.value);
  return node;
}

// True for a number, or for a tensor of the model.
bool Quantized::is_fixed(const Argument& argument) const {
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr || recording_.known.contains(reference->id)) return true;
  const Value& value = recording_.program.values[reference->id];
  if (value.source == ValueSource::parameter)
    return recording_.program.parameters[ParameterId(value.index)].kind != ParameterKind::parameter;
  return value.source == ValueSource::constant;
}

// Returns scale and zero point from the operator's arguments.
std::optional<Levels> Quantized::levels_of_arguments(const Node& operation, const Levels& levels) const {
  static constexpr std::pair<std::string_view, std::string_view> names[] = {{"scale", "zero_point"},
                                                                            {"output_scale", "output_zero_point"},
                                                                            {"Y_scale_i", "Y_zero_point_i"},
                                                                            {"scales", "zero_points"}};
  for (const auto& [scale_name, zero_point_name] : names) {
    const Argument *scale = operation.find(scale_name), *zero_point = operation.find(zero_point_name);
    if (scale == nullptr || zero_point == nullptr || scale->is_none() || zero_point->is_none()) continue;
    Levels in_call = levels;
    if (!levels.axis && is_fixed(*scale) && is_fixed(*zero_point)) return in_call;  // the numbers from the run
    in_call.scale = *scale, in_call.zero_point = *zero_point;
    return in_call;
  }
  return std::nullopt;
}

// Returns scale and zero point of a result: those in the operator's arguments, those of an input with equal ones, or
// those that the kernel chose, if they depend on no input.
std::optional<Levels> Quantized::levels_of_result(const Node& operation, const at::Tensor& tensor) {
  auto levels = levels_of(tensor);
  if (!levels) return std::nullopt;
  if (auto in_call = levels_of_arguments(operation, *levels)) return in_call;
  bool settled = true;
  std::optional<Levels> inherited;
  const auto look = [&](ValueId id) {
    const Levels* found = levels_at(id);
    if (found == nullptr) return;
    settled &= found->scale.as<ValueRef>() == nullptr || found->axis.has_value();
    const auto example = in_first_run_.find(current_value(id));
    if (inherited || levels->axis || example == in_first_run_.end()) return;
    const at::Tensor& input = example->second;
    const bool same_form = input.qscheme() == tensor.qscheme() && input.scalar_type() == tensor.scalar_type();
    if (same_form && input.q_scale() == tensor.q_scale() && input.q_zero_point() == tensor.q_zero_point()) {
      inherited = *found;
    }
  };
  for (const NamedArgument& argument : operation.arguments) each_value(argument.value, look);
  if (has_own_levels(operation.target)) return levels;
  if (inherited) return inherited;
  return settled ? levels : std::nullopt;
}

bool Quantized::is_quantized_operation(const Step& step, const Node& operation) const {
  bool found = quantizes_floats(operation.target) || operation.target.starts_with(quantized_space);
  const auto look = [&](ValueId id) { found |= levels_at(id) != nullptr; };
  for (const NamedArgument& argument : operation.arguments) each_value(argument.value, look);
  return found && recording_.runs.count > 0 && returns_tensors(step.node);
}

bool Quantized::carry_out(const Step& step, const std::vector<Term>& arguments, const Node& operation) {
  if (!is_quantized_operation(step, operation)) return false;
  const bool quantizes = quantizes_floats(operation.target), dequantizes = operation.target == "aten::dequantize";
  std::string name = operation.target.substr(operation.target.find("::") + 2);
  const bool named = operation.target.starts_with(quantized_space);
  const bool relu = named && name.ends_with("_relu") && float_form(name) == nullptr;
  if (relu) name.resize(name.size() - std::string_view("_relu").size());
  std::optional<Node> floats = operation;
  if (!quantizes && !dequantizes) floats = float_operation(operation, name, arguments);
  if (!floats) return false;
  give_results(recording_, step, execute(recording_, step, arguments), /*known=*/false, *floats);
  if (dequantizes) {
    dequantize_result(step.call.env[step.node.output()], operation.origin, operation.arguments.at(0).value);
    return true;
  }

  // The results of the float operator are floats, from which the quantized results are made.
  std::vector<Term*> results;
  const std::function<void(Term&)> collect = [&](Term& term) {
    if (term.items) std::ranges::for_each(*term.items, collect);
    if (term.is_value() && is_quantized(term.seen[0])) results.push_back(&term);
  };
  for (const jit::Value* output : step.node.outputs()) collect(step.call.env[output]);
  for (const Term* term : results) recording_.values.type(term->id).dtype = DType::float32;
  if (!quantizes) recording_.writer.write(std::move(*floats));
  quantize_results(results, operation, relu);
  // From now on, a tensor that the operator wrote in place is the operator's result.
  if (program::changes_first_argument(step.node) && arguments[0].is_value() && results.size() == 1) {
    rewritten_[current_value(arguments[0].id)] = results[0]->id;
  }
  return true;
}

// Quantizes the float results of an operator; if the operator is a quantization, quantizes its argument.
void Quantized::quantize_results(const std::vector<Term*>& results, const Node& operation, bool relu) {
  for (Term* term : results) {
    auto levels = levels_of_result(operation, term->seen[0]->toTensor());
    if (!levels) {
      refuse("the scale of a quantized result cannot be derived from the operator and its inputs",
             "quantize to 8 bits, and specify the scale where the model quantizes");
    }
    ValueId from = term->id;
    if (quantizes_floats(operation.target)) from = operation.find("self")->as<ValueRef>()->id;
    const Type type = recording_.values.type(from);
    if (relu) from = write(operation.origin, "aten::relu", "", {{"self", {ValueRef{from}}}}, type);
    term->id = convert_levels(operation.origin, "quantize", from, *levels, levels->dtype);
    set_levels(term->id, std::move(*levels), *term);
  }
}

// Sets the result of aten::dequantize, for one tensor or a list of tensors.
void Quantized::dequantize_result(Term& result, const Origin& origin, const Argument& quantized) {
  if (const auto* list = quantized.as<ArgumentList>(); list != nullptr && result.items) {
    for (std::size_t i = 0; i < list->size(); ++i) dequantize_result((*result.items)[i], origin, (*list)[i]);
    return;
  }
  result.id = dequantized(origin, quantized).as<ValueRef>()->id;
}

}  // namespace whence::recorder::script
