// Quantized tensors and the operators on them, written down in the words of PyTorch's quantized_decomposed library:
//
//   y = quantized::linear(x, packed, scale, zero_point)
//     -> f = dequantize_per_tensor(x, ...); w = dequantize_per_channel(weight, ...);
//        y = quantize_per_tensor(aten::linear(f, w, bias), scale, zero_point, ...)
//
// In the Program a quantized tensor is the integers it holds; what they stand for is kept here, beside the value. What
// an operator computes is its float form between the two, which is how PyTorch defines it; kernels differ from that by
// how they round, never by more than one level.
#include <limits>
#include <map>
#include <string_view>

#include "recorder/program/finish.h"
#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

constexpr std::string_view quantized_space = "quantized::";

// A quantized operator that is an ATen operator on floats, and its arguments' names there.
struct FloatForm {
  std::string_view target, overload;
  std::vector<std::pair<std::string_view, std::string_view>> names;  // quantized operator's, ATen's
  std::vector<NamedArgument> further = {};
};

const FloatForm* float_form(std::string_view name) {
  static const std::map<std::string_view, FloatForm> forms = {
      {"add", {"aten::add", "Tensor", {{"qa", "self"}, {"qb", "other"}}}},
      {"mul", {"aten::mul", "Tensor", {{"qa", "self"}, {"qb", "other"}}}},
      {"cat", {"aten::cat", "", {{"qx", "tensors"}, {"dim", "dim"}}}},
      {"hardswish", {"aten::hardswish", "", {{"input", "self"}}}},
      {"sigmoid", {"aten::sigmoid", "", {{"qx", "self"}}}},
      {"leaky_relu", {"aten::leaky_relu", "", {{"qx", "self"}, {"negative_slope", "negative_slope"}}}},
      {"elu",
       {"aten::elu", "", {{"self", "self"}, {"alpha", "alpha"}, {"scale", "scale"}, {"input_scale", "input_scale"}}}},
      {"softmax", {"aten::softmax", "int", {{"qx", "self"}, {"dim", "dim"}}}},
      {"prelu", {"aten::prelu", "", {{"qx", "self"}, {"weight", "weight"}}}},
      {"layer_norm",
       {"aten::layer_norm",
        "",
        {{"input", "input"},
         {"normalized_shape", "normalized_shape"},
         {"weight", "weight"},
         {"bias", "bias"},
         {"eps", "eps"}}}},
      {"group_norm",
       {"aten::group_norm",
        "",
        {{"input", "input"}, {"num_groups", "num_groups"}, {"weight", "weight"}, {"bias", "bias"}, {"eps", "eps"}}}},
      {"instance_norm",
       {"aten::instance_norm",
        "",
        {{"input", "input"}, {"weight", "weight"}, {"bias", "bias"}, {"eps", "eps"}},
        {{"running_mean", {None{}}},
         {"running_var", {None{}}},
         {"use_input_stats", {true}},
         {"momentum", {0.1}},
         {"cudnn_enabled", {false}}}}},
      {"batch_norm",
       {"aten::batch_norm",
        "",
        {{"qx", "input"},
         {"weight", "weight"},
         {"bias", "bias"},
         {"mean", "running_mean"},
         {"var", "running_var"},
         {"eps", "eps"}},
        {{"training", {false}}, {"momentum", {0.1}}, {"cudnn_enabled", {false}}}}},
  };
  if (name == "batch_norm1d" || name == "batch_norm2d" || name == "batch_norm3d") name = "batch_norm";
  const auto found = forms.find(name);
  return found == forms.end() ? nullptr : &found->second;
}

// Operators whose kernels choose scale and zero point by themselves, whatever the input's are.
bool has_own_levels(const std::string& target) {
  static const std::unordered_set<std::string> names = {"aten::sigmoid",     "aten::tanh",     "aten::hardsigmoid",
                                                        "aten::softmax",     "aten::sigmoid_", "aten::tanh_",
                                                        "aten::hardsigmoid_"};
  return names.contains(target);
}

DType levels_dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kQUInt8:
      return DType::uint8;
    case at::kQInt8:
      return DType::int8;
    case at::kQInt32:
      return DType::int32;
    default:
      return DType::undefined;  // two and four bits
  }
}

bool is_quantized(const std::optional<c10::IValue>& value) {
  return value && value->isTensor() && value->toTensor().defined() && value->toTensor().is_quantized();
}

// Others ask for a size or a dtype, which integers have as well.
bool returns_tensors(const jit::Node& node) {
  if (node.kind() == c10::Symbol::fromQualString("aten::int_repr")) return false;
  for (const jit::Value* output : node.outputs()) {
    if (output->type()->isSubtypeOf(*c10::TensorType::get())) return true;
    if (output->type()->isSubtypeOf(*c10::ListType::ofTensors())) return true;
  }
  return false;
}

// What PyTorch's own operator `name` returns for a packed weight: its tensors, its stride.
std::vector<c10::IValue> ask_packed(const std::string& name, const c10::IValue& packed) {
  jit::Stack stack{packed};
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
  return stack;
}

}  // namespace

// ---- what the integers stand for

std::optional<Evaluator::Levels> Evaluator::levels_of(const at::Tensor& tensor) {
  Levels levels;
  levels.dtype = levels_dtype(tensor);
  switch (levels.dtype) {
    case DType::uint8:
      levels.low = 0, levels.high = 255;
      break;
    case DType::int8:
      levels.low = -128, levels.high = 127;
      break;
    case DType::int32:
      levels.low = std::numeric_limits<std::int32_t>::min(), levels.high = std::numeric_limits<std::int32_t>::max();
      break;
    default:
      return std::nullopt;
  }
  switch (tensor.qscheme()) {
    case at::kPerTensorAffine:
    case at::kPerTensorSymmetric:
      levels.scale = {tensor.q_scale()};
      levels.zero_point = {tensor.q_zero_point()};
      return levels;
    case at::kPerChannelAffine:
    case at::kPerChannelSymmetric:
      levels.scale = {ValueRef{constant(tensor.q_per_channel_scales().to(at::kFloat), "scale").id}};
      levels.zero_point = {ValueRef{constant(tensor.q_per_channel_zero_points().to(at::kLong), "zero_point").id}};
      levels.axis = tensor.q_per_channel_axis();
      return levels;
    default:
      return std::nullopt;
  }
}

// A quantized tensor that the caller passes in comes with its scale and zero point, as PyTorch unpacks it.
Term Evaluator::quantized_input(Term term, const std::string& name) {
  auto levels = levels_of(term.seen[0]->toTensor());
  if (!levels || levels->axis) return term;
  const auto number = [&](const char* suffix, DType dtype) -> Argument {
    const std::string full = name + suffix;
    const ValueId id = new_value(full, ValueSource::input, static_cast<std::int32_t>(program_.inputs.size()));
    program_.values[id].type = {ValueKind::tensor, dtype, std::vector<Dim>()};
    program_.inputs.push_back({full, id});
    return {ValueRef{id}};
  };
  levels->scale = number("_scale", DType::float64);
  levels->zero_point = number("_zero_point", DType::int64);
  program_.values[term.id].type.dtype = levels->dtype;
  levels_[term.id] = std::move(*levels);
  quantized_in_[term.id] = term.seen[0]->toTensor();
  return term;
}

// A quantized result leaves as its integers, scale and zero point.
Term Evaluator::unpacked_output(const Term& term) {
  if (term.items) {
    std::vector<Term> items;
    for (const Term& item : *term.items) items.push_back(unpacked_output(item));
    return Term::container(term.kind, std::move(items), term.depth);
  }
  const auto found = term.is_value() ? levels_.find(newest(term.id)) : levels_.end();
  if (found == levels_.end() || found->second.axis) return term;
  const Levels levels = found->second;
  Term whole = term;
  whole.id = found->first;
  const auto part = [&](const Argument& argument, DType dtype) {
    const auto type = static_cast<at::ScalarType>(to_scalar_type(dtype));
    if (const auto* number = argument.as<double>()) return constant(at::scalar_tensor(*number, type), "scale");
    if (const auto* number = argument.as<std::int64_t>())
      return constant(at::scalar_tensor(*number, type), "zero_point");
    Term cast;
    cast.kind = Term::Kind::value;
    cast.id = step({}, "aten::to", "dtype",
                   {{"self", argument}, {"dtype", {dtype}}, {"non_blocking", {false}}, {"copy", {false}}},
                   {ValueKind::tensor, dtype, std::vector<Dim>()});
    return cast;
  };
  return Term::container(Term::Kind::tuple,
                         {whole, part(levels.scale, DType::float32), part(levels.zero_point, levels.dtype)});
}

// What was written in place is the result of the last write.
ValueId Evaluator::newest(ValueId id) const {
  for (auto next = rewritten_.find(id); next != rewritten_.end(); next = rewritten_.find(id)) id = next->second;
  return id;
}

// ---- writing steps down

ValueId Evaluator::step(const Origin& origin, const std::string& target, const std::string& overload,
                        std::vector<NamedArgument> arguments, Type type) {
  Node node;
  node.target = target;
  node.overload = overload;
  node.arguments = std::move(arguments);
  node.origin = origin;
  const ValueId id = new_value(target.substr(target.find("::") + 2), ValueSource::node, none_id);
  program_.values[id].type = std::move(type);
  node.outputs = {id};
  sink_->push_back(std::move(node));
  return id;
}

ValueId Evaluator::convert_levels(const Origin& origin, const char* verb, ValueId id, const Levels& levels,
                                  DType dtype) {
  Type type = program_.values[id].type;
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
  return step(origin, target, overload, std::move(arguments), type);
}

// The same argument in floats.
Argument Evaluator::in_floats(const Origin& origin, const Argument& argument) {
  if (const auto* list = argument.as<ArgumentList>()) {
    ArgumentList floats;
    for (const Argument& item : *list) floats.push_back(in_floats(origin, item));
    return {std::move(floats)};
  }
  const auto* value = argument.as<ValueRef>();
  if (value == nullptr) return argument;
  const ValueId id = newest(value->id);
  const auto levels = levels_.find(id);
  if (levels == levels_.end()) return argument;
  return {ValueRef{convert_levels(origin, "dequantize", id, levels->second, DType::float32)}};
}

// Weight and bias of a packed layer: integers and floats, as they were before packing. The kernels round the bias to
// multiples of input scale times weight scale.
std::pair<Argument, Argument> Evaluator::unpacked(const Origin& origin, const std::string& unpack, const Term& packed,
                                                  const Argument& input) {
  const std::vector<c10::IValue> parts = ask_packed(unpack, c10::IValue(packed.object));
  const at::Tensor weight = parts.at(0).toTensor();
  auto levels = levels_of(weight);
  if (!levels) return {Argument{None{}}, Argument{None{}}};
  const std::string& path = program_.module_path(origin.scope);
  const std::string name = path.empty() ? "" : path + ".";
  const auto [place, first] = packed_weights_.try_emplace(packed.object.get(), none_id);
  if (first) {
    place->second = constant(weight.int_repr(), name + "weight").id;
    levels_[place->second] = std::move(*levels);
  }
  Argument bias{None{}};
  if (parts.at(1).isTensor() && parts.at(1).toTensor().defined()) {
    at::Tensor values = parts.at(1).toTensor().detach().to(at::kFloat);
    const auto* input_value = input.as<ValueRef>();
    const auto of_input = input_value == nullptr ? levels_.end() : levels_.find(newest(input_value->id));
    const double* scale = of_input == levels_.end() ? nullptr : of_input->second.scale.as<double>();
    if (scale != nullptr) {
      const bool per_tensor = weight.qscheme() == at::kPerTensorAffine || weight.qscheme() == at::kPerTensorSymmetric;
      const at::Tensor weight_scale =
          per_tensor ? at::scalar_tensor(weight.q_scale(), at::kDouble) : weight.q_per_channel_scales().to(at::kDouble);
      const at::Tensor unit = weight_scale * *scale;
      values = (at::round(values.to(at::kDouble) / unit) * unit).to(at::kFloat);
    }
    bias = {ValueRef{constant(values, name + "bias").id}};
  }
  return {in_floats(origin, {ValueRef{place->second}}), bias};
}

// ---- the operators

// Linear layers and convolutions: the float operator with weight and bias unpacked. Empty when it is none.
std::optional<Node> Evaluator::packed_layer(const Origin& origin, const std::string& name,
                                            const std::vector<Term>& arguments) {
  const bool linear = name == "linear", transposed = name.starts_with("conv_transpose");
  if (!linear && (!name.starts_with("conv") || arguments.size() < 2)) return std::nullopt;
  if (arguments[1].kind != Term::Kind::object) return std::nullopt;
  const Argument input = argument(arguments[0], nullptr);
  const auto [weight, bias] = unpacked(origin, std::string(quantized_space) + name + "_unpack", arguments[1], input);
  if (weight.is_none()) return std::nullopt;
  Node node;
  node.origin = origin;
  node.target = "aten::" + name;
  node.arguments = {{"input", in_floats(origin, input)}, {"weight", weight}, {"bias", bias}};
  if (linear) return node;
  // One dimension is packed as two, of which the first is 1.
  const char rank = name[name.size() - 2];
  node.target = std::string(transposed ? "aten::conv_transpose" : "aten::conv") + rank + "d";
  if (transposed) node.overload = rank == '1' ? "" : "input";
  const std::string ask =
      std::string(quantized_space) + (transposed ? "conv_transpose" : "conv") + (rank == '1' ? '2' : rank) + "d_";
  const c10::IValue packed(arguments[1].object);
  const auto numbers = [&](const char* what) {
    ArgumentList list;
    for (const std::int64_t number : ask_packed(ask + what, packed).at(0).toIntVector()) list.push_back({number});
    if (rank == '1') list.erase(list.begin());
    return Argument{std::move(list)};
  };
  node.arguments.push_back({"stride", numbers("stride")});
  node.arguments.push_back({"padding", numbers("padding")});
  if (transposed) node.arguments.push_back({"output_padding", numbers("output_padding")});
  node.arguments.push_back({"groups", {ask_packed(ask + "groups", packed).at(0).toInt()}});
  node.arguments.push_back({"dilation", numbers("dilation")});
  return node;
}

// The operator on floats, its arguments dequantized; empty when there is no such form.
std::optional<Node> Evaluator::on_floats(const Node& whole, const std::string& name,
                                         const std::vector<Term>& arguments) {
  if (whole.target.starts_with(quantized_space)) {
    if (auto layer = packed_layer(whole.origin, name, arguments)) return layer;
    const FloatForm* form = float_form(name);
    if (form == nullptr) return std::nullopt;
    Node node;
    node.target = form->target;
    node.overload = form->overload;
    node.origin = whole.origin;
    for (const auto& [theirs, ours] : form->names) {
      if (const Argument* given = whole.find(theirs)) {
        node.arguments.push_back({std::string(ours), in_floats(whole.origin, *given)});
      }
    }
    node.arguments.insert(node.arguments.end(), form->further.begin(), form->further.end());
    return node;
  }
  Node node = whole;
  for (NamedArgument& argument : node.arguments) argument.value = in_floats(whole.origin, argument.value);
  return node;
}

// A number, or a tensor that the model holds.
bool Evaluator::is_fixed(const Argument& argument) const {
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr || known_.contains(reference->id)) return true;
  const Value& value = program_.values[reference->id];
  if (value.source == ValueSource::parameter) return program_.parameters[value.index].kind != ParameterKind::parameter;
  return value.source == ValueSource::constant;
}

// Scale and zero point of a result: those in the operator's arguments, those of an input that has the same, or those
// that the kernel chose, when they follow from no input.
std::optional<Evaluator::Levels> Evaluator::levels_of_result(const Node& whole, const at::Tensor& tensor) {
  auto levels = levels_of(tensor);
  if (!levels) return std::nullopt;
  static constexpr std::pair<std::string_view, std::string_view> names[] = {{"scale", "zero_point"},
                                                                            {"output_scale", "output_zero_point"},
                                                                            {"Y_scale_i", "Y_zero_point_i"},
                                                                            {"scales", "zero_points"}};
  for (const auto& [scale, zero_point] : names) {
    const Argument *given = whole.find(scale), *zero = whole.find(zero_point);
    if (given == nullptr || zero == nullptr || given->is_none() || zero->is_none()) continue;
    if (!levels->axis && is_fixed(*given) && is_fixed(*zero)) return levels;  // the numbers that the run saw
    levels->scale = *given, levels->zero_point = *zero;
    return levels;
  }
  bool settled = true;
  std::optional<Levels> inherited;
  const auto look = [&](ValueId id) {
    const ValueId value = newest(id);
    const auto found = levels_.find(value);
    if (found == levels_.end()) return;
    settled &= found->second.scale.as<ValueRef>() == nullptr || found->second.axis.has_value();
    const auto example = quantized_in_.find(value);
    if (inherited || levels->axis || example == quantized_in_.end()) return;
    const at::Tensor& input = example->second;
    const bool same_form = input.qscheme() == tensor.qscheme() && input.scalar_type() == tensor.scalar_type();
    if (same_form && input.q_scale() == tensor.q_scale() && input.q_zero_point() == tensor.q_zero_point()) {
      inherited = found->second;
    }
  };
  for (const NamedArgument& argument : whole.arguments) visit_argument(argument.value, look);
  if (has_own_levels(whole.target)) return levels;
  if (inherited) return inherited;
  return settled ? levels : std::nullopt;
}

// Records an operation that reads or makes quantized tensors. False when it is none, or has no float form.
bool Evaluator::operate_quantized(const jit::Node& node, Call& call, const std::vector<Term>& arguments,
                                  const Node& whole) {
  const bool quantizes = whole.target == "aten::quantize_per_tensor" || whole.target == "aten::quantize_per_channel";
  const bool dequantizes = whole.target == "aten::dequantize";
  const bool named = whole.target.starts_with(quantized_space);
  bool touches = quantizes || named;
  const auto look = [&](ValueId id) { touches |= levels_.contains(newest(id)); };
  for (const NamedArgument& argument : whole.arguments) visit_argument(argument.value, look);
  if (runs_ == 0 || !touches || !returns_tensors(node)) return false;

  std::string name = whole.target.substr(whole.target.find("::") + 2);
  const bool relu = named && name.ends_with("_relu") && float_form(name) == nullptr;
  if (relu) name.resize(name.size() - std::string_view("_relu").size());
  Node floats = whole;
  if (!quantizes && !dequantizes) {
    auto made = on_floats(whole, name, arguments);
    if (!made) return false;
    floats = std::move(*made);
  }
  const auto results = execute(node, call, arguments);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    PerRun<std::optional<c10::IValue>> seen;
    for (int run = 0; run < runs_; ++run) {
      if (results[run]) seen[run] = (*results[run])[i];
    }
    call.env[node.outputs()[i]] = result(*node.outputs()[i], std::move(seen), /*known=*/false, floats);
  }
  if (dequantizes) {
    dequantize_result(call.env[node.output()], whole.origin, whole.arguments.at(0).value);
    return true;
  }

  // What the float operator returns are floats; the quantized results are made of them.
  std::vector<Term*> made;
  const std::function<void(Term&)> collect = [&](Term& term) {
    if (term.items) {
      for (Term& item : *term.items) collect(item);
    } else if (term.is_value() && is_quantized(term.seen[0])) {
      made.push_back(&term);
    }
  };
  for (const jit::Value* output : node.outputs()) collect(call.env[output]);
  for (const Term* term : made) program_.values[term->id].type.dtype = DType::float32;
  if (!quantizes) sink_->push_back(std::move(floats));
  for (Term* term : made) {
    auto levels = levels_of_result(whole, term->seen[0]->toTensor());
    if (!levels) {
      refuse(node, call, "the scale of a quantized result cannot be told from the operator and its inputs",
             "quantize to 8 bits, and give the scale where the model quantizes");
    }
    ValueId from = term->id;
    if (quantizes) from = whole.find("self")->as<ValueRef>()->id;
    if (relu) from = step(whole.origin, "aten::relu", "", {{"self", {ValueRef{from}}}}, program_.values[from].type);
    term->id = convert_levels(whole.origin, "quantize", from, *levels, levels->dtype);
    levels_[term->id] = std::move(*levels);
    quantized_in_[term->id] = term->seen[0]->toTensor();
  }
  // What the operator wrote in place is its result from now on.
  const auto* alias = node.schema().arguments().empty() ? nullptr : node.schema().arguments()[0].alias_info();
  if (alias != nullptr && alias->isWrite() && arguments[0].is_value() && made.size() == 1) {
    rewritten_[newest(arguments[0].id)] = made[0]->id;
  }
  return true;
}

// The result of aten::dequantize, of one tensor or of a list of them.
void Evaluator::dequantize_result(Term& result, const Origin& origin, const Argument& quantized) {
  if (const auto* list = quantized.as<ArgumentList>(); list != nullptr && result.items) {
    for (std::size_t i = 0; i < list->size(); ++i) dequantize_result((*result.items)[i], origin, (*list)[i]);
    return;
  }
  result.id = in_floats(origin, quantized).as<ValueRef>()->id;
}

}  // namespace whence::recorder
