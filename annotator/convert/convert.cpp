// The node loop, the poisoning of results, and the state that converters share: values, constants, sizes.
#include "annotator/convert/convert.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "annotator/convert/infer.h"
#include "annotator/convert/op_table.h"
#include "annotator/program/program_facts.h"
#include "annotator/program/tensor_values.h"
#include "schema/files/files.h"

namespace whence::convert {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValue;
using graph::GraphValueId;
using graph::no_value;
using origin::OriginKind;
using program::place_of;

namespace {

// Small contents are their own key; larger ones (masks, position tables) are identified by their digest.
std::string content_key(const TensorData& data) {
  constexpr std::size_t largest_verbatim = 256;
  std::string key(1, static_cast<char>(data.dtype));
  for (const std::int64_t size : data.shape) key += std::to_string(size) + ',';
  key += '|';
  const auto bytes = data.bytes.in_memory().value();
  if (bytes.size() > largest_verbatim) return key + digest_of(bytes.data(), bytes.size());
  return key.append(as_text(bytes));
}

}  // namespace

GraphValue graph_value(const Type& type) {
  GraphValue value;
  value.dtype = type.dtype;
  value.dims = type.dims;
  if (is_scalar(type.kind)) value.dims.emplace();
  value.sequence = type.kind == ValueKind::sequence;
  value.optional = type.kind == ValueKind::optional;
  return value;
}

ConvertSession::ConvertSession(const Program& program, Graph& graph, const ConvertOptions& options)
    : program_(program), options_(options), opset_(options.opset) {
  frames_.push_back(std::make_unique<Frame>());
  frames_.back()->graph = &graph;
}

namespace {

// Returns true if an error of lowering already explains this failure. For an operator without a converter, lowering
// reports why it cannot be decomposed; the remedy of this failure is appended, unless that error is about arguments.
// After a refusal in lowering the program is not the recorded one, so an internal error in it is not a defect.
bool is_explained(const Failure& failure, Failures& of_lowering) {
  if (failure.kind == FailureKind::defect) return !of_lowering.empty();
  if (failure.kind != FailureKind::no_converter) return false;
  const auto reason = std::ranges::find(of_lowering, failure.op, &Failure::op);
  if (reason == of_lowering.end()) return false;
  if (reason->kind != FailureKind::refused_call) reason->diagnostic.remedy += ", or " + failure.diagnostic.remedy;
  return true;
}

// Keeps one error per call: one about its arguments, else the last that lowering found, which is about the operator.
void keep_one_error_per_call(Failures& of_lowering) {
  const auto weight = [](const Failure& each) { return each.kind == FailureKind::refused_call ? 1 : 0; };
  std::map<std::array<std::string, 3>, std::size_t> kept_of;  // by operator, module and source
  Failures kept;
  for (Failure& each : of_lowering) {
    const Place& where = each.diagnostic.where;
    const auto [entry, first] = kept_of.try_emplace({each.op, where.module, where.source}, kept.size());
    if (first || each.op.empty()) {
      kept.push_back(std::move(each));
    } else if (weight(each) >= weight(kept[entry->second])) {
      kept[entry->second] = std::move(each);
    }
  }
  of_lowering = std::move(kept);
}

}  // namespace

Failures ConvertSession::convert(Failures of_lowering) {
  graph().symbols = program_.symbols;
  add_inputs();
  convert_nodes(program_.body.nodes);
  add_outputs();
  keep_one_error_per_call(of_lowering);
  Failures further;
  for (auto& [key, failure] : failures_) {
    if (!is_explained(failure, of_lowering)) further.push_back(std::move(failure));
  }
  std::ranges::move(further, std::back_inserter(of_lowering));
  return of_lowering;
}

void ConvertSession::add_inputs() {
  for (const ProgramInput& input : program_.inputs) {
    GraphValue value = graph_value(program_.values[input.value].type);
    value.name = input.name;
    value.is_input = true;
    const std::optional<std::vector<Dim>> dims = value.dims;
    const GraphValueId id = graph().add_value(std::move(value));
    graph().inputs.push_back(id);
    frames_.back()->values[input.value] = id;
    for (std::size_t axis = 0; dims && axis < dims->size(); ++axis) {
      const Dim& dim = (*dims)[axis];
      if (dim.dynamic && dim.symbol != none_id) input_axes_.try_emplace(dim.symbol, id, static_cast<int>(axis));
    }
  }
}

void ConvertSession::add_outputs() {
  node_ = nullptr;
  for (const ProgramOutput& output : program_.outputs) {
    if (output.value.is_none()) continue;
    try {
      GraphValueId value = value_of(output.value);
      GraphValue& output_value = graph().values[value];
      const auto& outputs = graph().outputs;
      if (output_value.producer < 0 || std::find(outputs.begin(), outputs.end(), value) != outputs.end()) {
        // ONNX requires that each output is the result of its own node. This one gets its origin from the copied value.
        origin::NodeOrigin origin{OriginKind::shared, {}};
        if (output_value.initializer >= 0) origin.ops = graph().initializers[output_value.initializer].origin.ops;
        if (output_value.producer >= 0) origin = graph().nodes[output_value.producer].origin;
        GraphValue copy = output_value;
        copy.initializer = -1;
        copy.is_input = false;
        const GraphValueId named = graph().add_value(std::move(copy));
        graph().add_node(GraphNode{"Identity", "", {value}, {named}, {}, std::move(origin), "", false});
        value = named;
      }
      graph().values[value].name = output.name;
      graph().outputs.push_back(value);
    } catch (const Poisoned&) {
      continue;  // reported where it failed
    } catch (const Error& error) {
      record(error);
    }
  }
}

void ConvertSession::convert_nodes(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) convert_node(node);
}

// Reports an unexpected exception of a converter as a defect of whence. The archive may be damaged, but no check found
// a fault in it.
Error ConvertSession::defect(const Node& node, const std::string& what) const {
  return Error(Code::internal, "the converter of " + qualified(node) + " failed: " + what,
               "please report this with the command line and the file", place_of(program_, node, "convert"));
}

// Reports sizes that the operator's tensors cannot have. A torch.export archive that states them is damaged; a program
// that was run cannot have them, so there it is a defect.
Error ConvertSession::contradiction(const Node& node, const std::string& what) const {
  if (program_.source.kind != "torch.export") return defect(node, what);
  return Error(Code::corrupt_file, qualified(node) + ": " + what, "save the model again",
               place_of(program_, node, "convert"));
}

void ConvertSession::convert_node(const Node& node) {
  const Node* enclosing = std::exchange(node_, &node);
  const std::size_t depth = frames_.size();
  const auto leave_bodies = [&] { frames_.resize(depth); };  // a converter may fail inside a body
  const OpEntry* converter = OpTable::get().find(qualified(node));
  try {
    if (node.target == "prim::If") {
      convert_if(node);
    } else if (node.target == "prim::Loop") {
      convert_loop(node);
    } else if (is_custom_operator(node)) {
      convert_as_custom(node);
    } else if (converter != nullptr) {
      convert_with(*converter, node);
    } else if (options_.unsupported_as_domain || is_passed_through(node)) {
      convert_as_custom(node);
    } else {
      record(no_converter(node));
      poison_outputs(node);
    }
  } catch (const Poisoned&) {
    leave_bodies();
    poison_outputs(node);
  } catch (const Error& error) {
    leave_bodies();
    if (options_.unsupported_as_domain && error.diagnostics().front().code != Code::internal) {
      convert_as_custom(node);
    } else {
      record(error);
      poison_outputs(node);
    }
  } catch (const MissingAxis& axis) {
    leave_bodies();
    record(contradiction(node, axis.what()));
    poison_outputs(node);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& other) {
    leave_bodies();
    record(defect(node, other.what()));
    poison_outputs(node);
  }
  node_ = enclosing;
}

Error ConvertSession::no_converter(const Node& node) const {
  const std::string domain = node.target.substr(0, node.target.find(':'));
  std::string remedy =
      domain == "aten" || domain == "prim" || domain == "prims"
          ? "add a converter (annotator/convert/README.md) or pass one with --converters FILE"
          : "pass a converter with --converters FILE, make it a node with --custom-opset " + domain + "=1";
  remedy += ", or use --on-unsupported=domain";
  const std::vector<std::string> others = OpTable::get().overloads(node.target);
  if (!others.empty()) remedy += "; convertible: " + others.front();
  return Error(Code::no_converter, qualified(node), remedy, place_of(program_, node, "convert"));
}

void ConvertSession::convert_with(const OpEntry& converter, const Node& node) {
  const std::string key = qualified(node);
  Ctx ctx(*this, node, *OpTable::get().schema(key));
  converter.convert(ctx);
  for (const ValueId output : node.outputs) {
    if (frames_.back()->values.count(output) == 0) {
      throw Error(Code::internal, "the converter of " + key + " yields no result", "please report this",
                  place_of(program_, node, "convert"));
    }
  }
  if (options_.as_other_exporters) write_no_op(node);
}

namespace {

// Returns the ONNX operator that other exporters write for `target` even if it does nothing.
std::string_view no_op_type_of(std::string_view target) {
  static const std::vector<std::pair<std::string_view, std::set<std::string_view>>> names = {
      {"Pad",
       {"aten::_pad_circular", "aten::_pad_enum", "aten::constant_pad_nd", "aten::pad", "aten::reflection_pad1d",
        "aten::reflection_pad2d", "aten::reflection_pad3d", "aten::replication_pad1d", "aten::replication_pad2d",
        "aten::replication_pad3d"}},
      {"Reshape",
       {"aten::_reshape_alias", "aten::_unsafe_view", "aten::flatten", "aten::reshape", "aten::reshape_as",
        "aten::unflatten", "aten::view", "aten::view_as"}},
      {"Expand", {"aten::broadcast_to", "aten::expand", "aten::expand_as"}},
      {"Slice", {"aten::narrow", "aten::slice"}},
      {"Cast", {"aten::_to_copy", "aten::to", "aten::type_as"}},
      {"Squeeze", {"aten::squeeze"}},
      {"Transpose", {"aten::permute", "aten::transpose"}},
      {"Mul", {"aten::mul"}},
      {"Add", {"aten::add"}}};
  const auto found = std::ranges::find_if(names, [&](const auto& row) { return row.second.contains(target); });
  return found == names.end() ? "Identity" : found->first;
}

}  // namespace

// Gives a result that is one of the inputs its own node, of the type that other exporters write.
void ConvertSession::write_no_op(const Node& node) {
  if (node.outputs.size() != 1 || node.arguments.empty()) return;
  const auto* input = node.arguments.front().value.as<ValueRef>();
  if (input == nullptr || program_.values[input->id].type.kind != ValueKind::tensor) return;
  auto& values = frames_.back()->values;
  const auto from = values.find(input->id);
  if (from == values.end() || values[node.outputs.front()] != from->second) return;
  values[node.outputs.front()] = emit("", no_op_type_of(node.target), {from->second}, {}, 1).front();
}

void ConvertSession::poison_outputs(const Node& node) { poisoned_.insert(node.outputs.begin(), node.outputs.end()); }

void ConvertSession::record(const Error& error) {
  constexpr std::size_t further_places = 2;
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    Failure failure = failure_of(node_, diagnostic);
    const auto [entry, first] = failures_.try_emplace({failure.op, diagnostic.message}, std::move(failure));
    if (first) continue;
    Diagnostic& known = entry->second.diagnostic;
    ++known.count;
    const bool seen = known.where == diagnostic.where || std::ranges::count(known.more_places, diagnostic.where) > 0;
    if (!seen && known.more_places.size() < further_places) known.more_places.push_back(diagnostic.where);
  }
}

// ---- values -----------------------------------------------------------------------------------------------------

GraphValueId ConvertSession::value_of(ValueId id) {
  if (poisoned_.count(id) != 0) throw Poisoned{};
  const Value& value = program_.values[id];
  if (value.source == ValueSource::parameter) return parameter(ParameterId(value.index));
  if (const ConstantId content = value.content(); content != none_id) {
    const auto [entry, first] = known_.try_emplace(content, no_value);
    if (first) {
      const Constant& folded = program_.constants[content];
      entry->second = outermost_constant(folded.data);
      Graph& graph = *frames_.front()->graph;
      GraphValue& initializer_value = graph.values[entry->second];
      // A tensor that the model holds keeps its name, `scale` of self.scale = torch.tensor(2.). Literals also have
      // names, but without meaning: numbers in TorchScript, "lifted_tensor_0" in torch.export.
      const bool literal = folded.name.substr(folded.name.rfind('.') + 1).starts_with("lifted_tensor_");
      const bool keeps_name = folded.ops.empty() && program_.source.kind == "torch.export" && !literal;
      if (keeps_name && initializer_value.name.empty()) initializer_value.name = folded.name;
      origin::NodeOrigin& origin = graph.initializers[initializer_value.initializer].origin;
      origin = origin::merge_origins(origin, {OriginKind::shared, folded.ops}, OriginKind::shared);
    }
    return outermost(entry->second);
  }
  for (std::size_t depth = frames_.size(); depth-- > 0;) {
    const auto found = frames_[depth]->values.find(id);
    if (found == frames_[depth]->values.end()) continue;
    if (found->second == no_value) {
      throw Error(Code::converter_refused,
                  "the result '" + value.name + "' is used, but its converter does not make it",
                  "use --on-unsupported=domain, or avoid this result in the model",
                  node_ == nullptr ? Place{} : place_of(program_, *node_, "convert"));
    }
    return from_outer(frames_.size() - 1, found->second, depth);
  }
  throw Error(Code::internal, "value '" + value.name + "' is used before it is defined", "please report this",
              node_ == nullptr ? Place{} : place_of(program_, *node_, "convert"));
}

GraphValueId ConvertSession::value_of(const Argument& argument) {
  if (const auto* reference = argument.as<ValueRef>()) return value_of(reference->id);
  if (const auto* integer = argument.as<std::int64_t>())
    return constant(program::integer_scalar(*integer, DType::int64));
  if (const auto* number = argument.as<double>()) return constant(program::number_scalar(*number, DType::float64));
  if (const auto* flag = argument.as<bool>()) return constant(program::integer_scalar(*flag ? 1 : 0, DType::boolean));
  throw Error(Code::unsupported_feature, "a value that is neither a tensor nor a number cannot be expressed in ONNX",
              "pass or return tensors and numbers only",
              node_ == nullptr ? Place{} : place_of(program_, *node_, "convert"));
}

void ConvertSession::bind(ValueId id, GraphValueId to) {
  frames_.back()->values[id] = to;
  if (to == no_value) return;
  GraphValue& value = graph().values[to];
  if (value.producer < 0) return;
  const Type& recorded = program_.values[id].type;
  if (value.dtype == DType::undefined) value.dtype = recorded.dtype;
  value.sequence = recorded.kind == ValueKind::sequence;
  value.optional = recorded.kind == ValueKind::optional;
  if (is_scalar(recorded.kind)) {
    if (!value.dims) value.dims.emplace();
  } else if (recorded.dims) {
    value.dims = recorded.dims;
  }
}

const TensorData* ConvertSession::known(ValueId id) const {
  const ConstantId content = program_.values[id].content();
  return content == none_id ? nullptr : &program_.constants[content].data;
}

const ProgramUses& ConvertSession::uses() {
  if (!uses_) uses_ = std::make_unique<ProgramUses>(program_);
  return *uses_;
}

GraphValueId ConvertSession::parameter(ParameterId id) {
  auto [entry, first] = parameters_.try_emplace(id, no_value);
  if (first) {
    const Parameter& parameter = program_.parameters[id];
    entry->second = frames_.front()->graph->add_initializer(parameter.name, parameter.data, {}, true);
  }
  return outermost(entry->second);
}

GraphValueId ConvertSession::outermost_constant(TensorData data) {
  Graph& graph = *frames_.front()->graph;
  const auto [entry, first] = constants_.try_emplace(content_key(data), no_value);
  if (first) entry->second = graph.add_initializer("", std::move(data), {OriginKind::shared, {}}, false);
  graph::Initializer& initializer = graph.initializers[graph.values[entry->second].initializer];
  if (node_ != nullptr) origin::add_op(initializer.origin, current_op());
  return entry->second;
}

GraphValueId ConvertSession::constant(TensorData data) { return outermost(outermost_constant(std::move(data))); }

// Brings a value of frame `outer_depth` into frame `depth`, through the frames between them.
GraphValueId ConvertSession::from_outer(std::size_t depth, GraphValueId outer_value, std::size_t outer_depth) {
  if (depth == outer_depth) return outer_value;
  const GraphValueId enclosing = from_outer(depth - 1, outer_value, outer_depth);
  Frame& frame = *frames_[depth];
  auto [entry, first] = frame.captures.try_emplace(enclosing, no_value);
  if (first) {
    const GraphValue& outer = frames_[depth - 1]->graph->values[enclosing];
    GraphValue captured;
    captured.dtype = outer.dtype;
    captured.dims = outer.dims;
    captured.sequence = outer.sequence;
    captured.optional = outer.optional;
    captured.captured = enclosing;
    entry->second = frame.graph->add_value(std::move(captured));
  }
  return entry->second;
}

GraphValueId ConvertSession::outermost(GraphValueId value) { return from_outer(frames_.size() - 1, value, 0); }

std::vector<GraphValueId> ConvertSession::emit(std::string_view domain, std::string_view op_type,
                                               std::vector<GraphValueId> inputs, Attributes attributes, int outputs) {
  Graph& graph = this->graph();
  if (domain.empty() && op_type != "Cast") {
    if (const auto& widened = this->widened(op_type, inputs, outputs)) {
      if (widened->refused != DType::undefined) {
        throw Error(Code::converter_refused,
                    "ONNX has no " + std::string(op_type) + " of " + std::string(name_of(widened->refused)),
                    "convert the tensor to a dtype that ONNX takes, as with x.float()",
                    node_ == nullptr ? Place{} : place_of(program_, *node_, "convert"));
      }
      return emit_widened(op_type, std::move(inputs), std::move(attributes), *widened);
    }
  }
  GraphNode node;
  node.op_type = op_type;
  node.domain = domain;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.origin.ops = {current_op()};
  while (!node.inputs.empty() && node.inputs.back() == no_value) node.inputs.pop_back();
  for (int i = 0; i < outputs; ++i) node.outputs.push_back(graph.add_value({}));
  const std::vector<GraphValueId> results = node.outputs;
  infer_types(graph, graph.nodes[graph.add_node(std::move(node))]);
  return results;
}

const std::optional<WidenedTypes>& ConvertSession::widened(std::string_view op_type,
                                                           const std::vector<GraphValueId>& inputs, int outputs) {
  std::vector<DType> types;
  std::string key = std::string(op_type) + ' ' + std::to_string(outputs) + ' ';
  for (const GraphValueId input : inputs) {
    types.push_back(input == no_value ? DType::undefined : graph().values[input].dtype);
    key += static_cast<char>(types.back());
  }
  const auto [entry, is_new] = widened_.try_emplace(std::move(key));
  if (is_new) {
    entry->second = opset_.answer([&](int opset) { return widened_types(op_type, opset, types, outputs); });
  }
  return entry->second;
}

// Emits the operator between casts, because it does not accept the dtypes that the program computes in.
std::vector<GraphValueId> ConvertSession::emit_widened(std::string_view op_type, std::vector<GraphValueId> inputs,
                                                       Attributes attributes, const WidenedTypes& widened) {
  const auto cast = [&](GraphValueId value, DType dtype) {
    return emit("", "Cast", {value}, {{"to", static_cast<std::int64_t>(to_onnx(dtype))}}, 1).front();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == no_value || graph().values[inputs[i]].dtype == widened.inputs[i]) continue;
    inputs[i] = cast(inputs[i], widened.inputs[i]);
  }
  const int outputs = static_cast<int>(widened.outputs.size());
  std::vector<GraphValueId> results = emit("", op_type, std::move(inputs), std::move(attributes), outputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (widened.outputs[i] != DType::undefined) results[i] = cast(results[i], widened.outputs[i]);
  }
  return results;
}

// ---- sizes ------------------------------------------------------------------------------------------------------

std::pair<GraphValueId, int> ConvertSession::input_axis(SymbolId symbol) {
  const auto found = input_axes_.find(symbol);
  if (symbol == none_id || found == input_axes_.end()) return {no_value, 0};
  return {outermost(found->second.first), found->second.second};
}

const SizeSource* ConvertSession::size_source(GraphValueId size) const {
  const auto found = frames_.back()->sizes.find(size);
  return found == frames_.back()->sizes.end() ? nullptr : &found->second;
}

void ConvertSession::also_used_here(GraphValueId value) {
  Graph& graph = this->graph();
  for (std::int32_t producer = graph.values[value].producer; producer >= 0;) {
    GraphNode& helper = graph.nodes[producer];
    if (helper.origin.ops.back() != current_op()) {
      origin::add_op(helper.origin, current_op());
      helper.origin.kind = OriginKind::shared;
    }
    producer = helper.op_type == "Shape" ? -1 : graph.values[helper.inputs.front()].producer;
  }
}

GraphValueId ConvertSession::shape_slice(GraphValueId value, int start, int end) {
  auto& slices = frames_.back()->shape_slices;
  const std::tuple<GraphValueId, int, int> key{value, start, end};
  if (const auto found = slices.find(key); found != slices.end()) {
    also_used_here(found->second);
    return found->second;
  }
  GraphValueId slice = no_value;
  constexpr int first_opset_with_bounds = 15;
  if (opset() >= first_opset_with_bounds) {
    slice = emit("", "Shape", {value}, {{"start", std::int64_t{start}}, {"end", std::int64_t{end}}}, 1).front();
  } else {
    constexpr int whole = -1;
    const std::tuple<GraphValueId, int, int> whole_key{value, 0, whole};
    GraphValueId shape = no_value;
    if (const auto found = slices.find(whole_key); found != slices.end()) {
      shape = found->second;
      also_used_here(shape);
    } else {
      shape = emit("", "Shape", {value}, {}, 1).front();
      slices.emplace(whole_key, shape);
    }
    Ints axes;
    for (int axis = start; axis < end; ++axis) axes.push_back(axis);
    slice =
        emit("", "Gather", {shape, constant(program::integer_vector(axes))}, {{"axis", std::int64_t{0}}}, 1).front();
  }
  slices.emplace(key, slice);
  return slice;
}

GraphValueId ConvertSession::dim_of(GraphValueId value, int axis) {
  const auto& dims = graph().values[value].dims;
  const SymbolId symbol = dims && axis < static_cast<int>(dims->size()) ? (*dims)[axis].symbol : none_id;
  std::pair<GraphValueId, int> source = input_axis(symbol);
  if (source.first == no_value) source = {value, axis};
  if (const auto found = frames_.back()->dims.find(source); found != frames_.back()->dims.end()) {
    also_used_here(found->second);
    return found->second;
  }
  const GraphValueId vector = shape_slice(source.first, source.second, source.second + 1);
  const GraphValueId axes = constant(program::integer_vector({0}));
  const GraphValueId size = emit("", "Squeeze", {vector, axes}, {}, 1).front();
  frames_.back()->dims.emplace(source, size);
  frames_.back()->sizes.emplace(size, SizeSource{source.first, source.second, symbol, vector});
  return size;
}

}  // namespace whence::convert
