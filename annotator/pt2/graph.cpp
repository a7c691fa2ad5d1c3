#include "annotator/pt2/graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "annotator/convert/op_table.h"
#include "annotator/origin/keys/torch.h"
#include "annotator/pt2/checks.h"
#include "annotator/pt2/fx_sources.h"
#include "annotator/pt2/operands.h"
#include "annotator/pt2/tensors.h"
#include "schema/module_path.h"
#include "schema/operator_facts.h"
#include "schema/source_stack.h"

namespace whence::pt2 {

using convert::OpTable;

namespace {

constexpr std::string_view higher_order =
    "torch.ops.higher_order.";  // begins the targets of operators that take graphs

std::string device_name(const Part& device) {
  std::string name = device.at("type").text();
  if (const Part index = device.at("index"); !index.is_null()) name += ":" + std::to_string(index.integer());
  return name;
}

template <class Make>
Argument list_of(const Part& list, Make make) {
  ArgumentList items;
  for (std::size_t i = 0; i < list.size(); ++i) items.push_back(make(list[i]));
  return {std::move(items)};
}

}  // namespace

void ExportedGraph::unsupported(const std::string& what, const std::string& remedy) const {
  throw Error(Code::unsupported_feature, reading_.entry + ": " + what, remedy,
              {.file = reading_.file, .stage = "read"});
}

// ---- types --------------------------------------------------------------------------------------------------------

SymbolId ExportedGraph::named_symbol(const std::string& name) {
  const auto [known, is_new] = symbols_.try_emplace(name, SymbolId(program_.symbols.size()));
  if (is_new) program_.symbols.push_back({name, 0, {}, {}, SymbolKind::data, Size::unknown()});
  return known->second;
}

std::optional<Size> ExportedGraph::size(std::string_view text) { return read_size(text, size_names()); }

SymbolId ExportedGraph::symbol(const Size& size, std::int64_t example) {
  if (!size.is_known()) return none_id;
  SymbolId id = size.single_symbol().value_or(none_id);
  if (id == none_id) {
    const auto [known, is_new] = derived_.try_emplace(size, SymbolId(program_.symbols.size()));
    id = known->second;
    if (is_new) program_.symbols.push_back({"", 0, {}, {}, SymbolKind::derived, size});
    if (is_new) name_derived(program_.symbols, id);
  }
  Symbol& entry = program_.symbols[id];
  if (entry.example == 0) entry.example = example;
  return id;
}

void ExportedGraph::read_symbols(const Part& range_constraints) {
  range_constraints.entries([&](const std::string& name, const Part& range) {
    reading_.entry = "range of '" + name + "'";
    const auto constrained = size(name);
    const SymbolId id = constrained ? symbol(*constrained, 0) : none_id;
    if (id == none_id) return;
    Symbol& entry = program_.symbols[id];
    if (const Part minimum = range.at("min_val"); !minimum.is_null()) entry.min = minimum.integer();
    if (const Part maximum = range.at("max_val"); !maximum.is_null()) entry.max = maximum.integer();
  });
}

void ExportedGraph::choose_sizes(const Part& graph, const std::string& name) {
  const auto choose = [&](const Part& size) {
    const auto expression = size.maybe("as_expr");
    const auto read = expression ? this->size(expression->at("expr_str").view()) : std::nullopt;
    if (!read) return;
    for (const SymbolId id : read->symbols()) program_.symbols[id].kind = SymbolKind::axis;
  };
  if (const auto tensor = graph.at("tensor_values").maybe(name)) {
    const Part sizes = tensor->at("sizes");
    for (std::size_t i = 0; i < sizes.size(); ++i) choose(sizes[i]);
  } else if (graph.has("sym_int_values")) {
    if (const auto number = graph.at("sym_int_values").maybe(name)) choose(*number);
  }
}

Dim ExportedGraph::dim_of(const Part& size) {
  const auto [kind, content] = size.alternative();
  if (kind == "as_int") {
    if (content.integer() < 0) reading_.corrupt("the size " + std::to_string(content.integer()) + " is negative");
    return {content.integer(), false, none_id};
  }
  const Size length = this->size(content.at("expr_str").view()).value_or(Size::unknown());
  if (const auto number = length.integer(); number && *number >= 0) return {*number, false, none_id};
  const Part hint = content.at("hint");
  const std::int64_t example = hint.is_null() ? -1 : hint.at("as_int").integer();
  return {example, true, length.is_integer() ? none_id : symbol(length, example)};
}

// Rejects sizes with more bytes than 64 bits count; PyTorch cannot represent such tensors either.
void ExportedGraph::require_sane(const std::string& name, const Type& type) const {
  std::int64_t bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(size_of(type.dtype)));
  for (const Dim& dim : *type.dims) {
    // A size of 0 does not excuse the others: results computed only from the others must fit, too.
    if (!dim.is_static() || !__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim.size, 1), &bytes)) continue;
    reading_.corrupt("'" + name + "' is larger than any memory");
  }
}

Type ExportedGraph::type_of(const Part& graph, const std::string& name) {
  Type type;
  if (const auto known = graph.at("tensor_values").maybe(name)) {
    const Part& meta = *known;
    constexpr std::int64_t complex_half = 9;
    const std::int64_t scalar_type = meta.at("dtype").integer();
    if (scalar_type == complex_half) {
      unsupported("'" + name + "' is complex in half precision, which has no form in ONNX", "compute with complex64");
    }
    type.dtype = exported_dtype(scalar_type);
    std::vector<Dim>& dims = type.dims.emplace();
    const Part sizes = meta.at("sizes");
    for (std::size_t i = 0; i < sizes.size(); ++i) dims.push_back(dim_of(sizes[i]));
    require_sane(name, type);
    return type;
  }
  struct Scalar {
    const char* table;
    ValueKind kind;
    DType dtype;
  };
  for (const auto& [table, kind, dtype] : {Scalar{"sym_int_values", ValueKind::integer, DType::int64},
                                           Scalar{"sym_float_values", ValueKind::floating, DType::float64},
                                           Scalar{"sym_bool_values", ValueKind::boolean, DType::boolean}}) {
    if (graph.has(table) && graph.at(table).has(name.c_str())) return {kind, dtype, std::nullopt};
  }
  reading_.corrupt("the type of '" + name + "' is missing");
}

ValueId ExportedGraph::declare(const Part& graph, const std::string& name, ValueSource source, std::int32_t index) {
  Value value;
  if (names_.contains(name)) reading_.corrupt("two values are called '" + name + "'");
  value.name = name;
  value.type = type_of(graph, name);
  value.source = source;
  value.index = index;
  const ValueId id = program_.values.add(std::move(value));
  names_[name] = id;
  if (const auto meta = graph.at("tensor_values").maybe(name)) places_.note(id, place_in(*meta, size_names()));
  return id;
}

ValueId ExportedGraph::value_of(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) reading_.corrupt("'" + name + "' is read before it is defined");
  return found->second;
}

// ---- arguments ----------------------------------------------------------------------------------------------------

Argument ExportedGraph::argument(const Part& argument) {
  const auto [kind, content] = argument.alternative();
  const auto tensor = [&](const Part& part) { return Argument{ValueRef{value_of(part.at("name").text())}}; };
  const auto number = [&](const Part& part) {  // {"as_name": ...} or {"as_int": ...}
    const auto [form, inner] = part.alternative();
    if (form == "as_name") return Argument{ValueRef{value_of(inner.text())}};
    if (form == "as_bool") return Argument{inner.flag()};
    return form == "as_float" ? Argument{inner.number()} : Argument{inner.integer()};
  };
  const auto optional = [&](const Part& part) {
    const auto [form, inner] = part.alternative();
    return form == "as_none" ? Argument{None{}} : tensor(inner);
  };
  const auto integer = [](const Part& part) { return Argument{part.integer()}; };
  const auto real = [](const Part& part) { return Argument{part.number()}; };
  if (kind == "as_none") return {None{}};
  if (kind == "as_tensor") return tensor(content);
  if (kind == "as_tensors") return list_of(content, tensor);
  if (kind == "as_optional_tensor") return optional(content);
  if (kind == "as_optional_tensors") return list_of(content, optional);
  if (kind == "as_int") return integer(content);
  if (kind == "as_ints") return list_of(content, integer);
  if (kind == "as_float") return real(content);
  if (kind == "as_floats") return list_of(content, real);
  if (kind == "as_bool") return {content.flag()};
  if (kind == "as_bools") return list_of(content, [](const Part& part) { return Argument{part.flag()}; });
  if (kind == "as_string") return {content.text()};
  if (kind == "as_strings") return list_of(content, [](const Part& part) { return Argument{part.text()}; });
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return number(content);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return list_of(content, number);
  if (kind == "as_device") return {Keyword{device_name(content)}};
  if (kind == "as_layout") return {Keyword{exported_layout(content.integer())}};
  if (kind == "as_memory_format") return {Keyword{exported_memory_format(content.integer())}};
  if (kind == "as_complex") return {ComplexNumber{content.at("real").number(), content.at("imag").number()}};
  if (kind == "as_int_lists") return list_of(content, [&](const Part& part) { return list_of(part, integer); });
  if (kind == "as_float_lists") return list_of(content, [&](const Part& part) { return list_of(part, real); });
  if (kind == "as_nested_tensors") return list_of(content, [&](const Part& part) { return list_of(part, tensor); });
  if (kind == "as_scalar_type") {
    const DType dtype = exported_dtype(content.integer());
    if (dtype == DType::undefined) unsupported("a dtype that ONNX lacks", "convert to another dtype in the model");
    return {dtype};
  }
  unsupported("an argument of kind " + std::string(kind), "write the model without custom objects");
}

void ExportedGraph::read_arguments(const Part& inputs, Node& node) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.arguments.push_back({inputs[i].at("name").text(), argument(inputs[i].at("arg"))});
  }
}

// Adds the default arguments, which the archive omits.
void ExportedGraph::fill_defaults(Node& node) const {
  const OpSchema* schema = OpTable::get().schema(qualified(node));
  if (schema == nullptr) return;
  for (const SchemaArgument& expected : schema->arguments) {
    if (expected.default_value && node.find(expected.name) == nullptr) {
      node.arguments.push_back({expected.name, *expected.default_value});
    }
  }
}

// ---- operations ---------------------------------------------------------------------------------------------------

// Sets target and overload: "torch.ops.aten.add.Tensor" -> aten::add, Tensor; functions of numbers, such as
// "_operator.mul", -> aten::mul.int.
void ExportedGraph::set_target(const std::string& target, Node& node) {
  constexpr std::string_view operators = "torch.ops.";
  std::string_view name = target;
  if (name.starts_with("torch._functorch.")) {
    unsupported("torch.vmap is not supported: the archive only contains the calls that switch it on and off",
                "call program.run_decompositions() before torch.export.save");
  }
  if (!name.starts_with(operators)) {
    const std::size_t dot = name.rfind('.');
    return set_symbolic_target(dot == std::string_view::npos ? name : name.substr(dot + 1), node);
  }
  name.remove_prefix(operators.size());
  const std::size_t library = name.find('.'), overload = name.rfind('.');
  if (library == std::string_view::npos || overload == library) reading_.corrupt("'" + target + "' is not an operator");
  node.target =
      std::string(name.substr(0, library)) + "::" + std::string(name.substr(library + 1, overload - library - 1));
  node.overload = name.substr(overload + 1);
  if (node.overload == "default") node.overload.clear();
  if (node.target == "aten::sym_size") node.target = "aten::size";
  if (node.target == "aten::lift_fresh_copy") node.target = "aten::clone";
}

void ExportedGraph::set_symbolic_target(std::string_view function, Node& node) {
  struct Form {
    std::string_view python, target;
  };
  constexpr std::array<Form, 25> forms = {{{"add", "aten::add"},         {"sub", "aten::sub"},
                                           {"mul", "aten::mul"},         {"floordiv", "aten::floordiv"},
                                           {"truediv", "aten::div"},     {"mod", "aten::remainder"},
                                           {"pow", "aten::pow"},         {"neg", "aten::neg"},
                                           {"eq", "aten::eq"},           {"ne", "aten::ne"},
                                           {"lt", "aten::lt"},           {"le", "aten::le"},
                                           {"gt", "aten::gt"},           {"ge", "aten::ge"},
                                           {"and_", "aten::__and__"},    {"or_", "aten::__or__"},
                                           {"sym_not", "aten::__not__"}, {"sym_max", "prim::max"},
                                           {"sym_min", "prim::min"},     {"_sym_sqrt", "aten::sqrt"},
                                           {"floor", "aten::floor"},     {"ceil", "aten::ceil"},
                                           {"abs", "prim::abs"},         {"sym_float", "aten::Float"},
                                           {"trunc", "aten::Int"}}};
  if (function == "sym_ite" && node.arguments.size() == 3) {  // selects one of two numbers
    node.target = "aten::where";
    node.overload = "Scalar";
    for (std::size_t i = 0; i < 3; ++i) node.arguments[i].name = std::array{"condition", "self", "other"}[i];
    return;
  }
  const auto form = std::ranges::find(forms, function, &Form::python);
  if (form == forms.end()) {
    unsupported("the function " + std::string(function) + " of sizes", "compute the size in another way");
  }
  node.target = form->target;
  const auto kind_of = [&](const NamedArgument& argument) -> std::string {
    if (argument.value.as<double>() != nullptr) return "float";
    if (argument.value.as<bool>() != nullptr) return "bool";
    const auto* value = argument.value.as<ValueRef>();
    if (value == nullptr) return "int";
    const ValueKind kind = program_.values[value->id].type.kind;
    return kind == ValueKind::floating ? "float" : kind == ValueKind::boolean ? "bool" : "int";
  };
  const std::array<const char*, 2> names = {"a", "b"};
  for (std::size_t i = 0; i < node.arguments.size() && i < names.size(); ++i) node.arguments[i].name = names[i];
  std::string kinds;
  for (const NamedArgument& argument : node.arguments) {
    const std::string kind = kind_of(argument);
    if (kinds != kind) kinds += (kinds.empty() ? "" : "_") + kind;
  }
  node.overload = node.target == "aten::__not__" ? "" : kinds;
  if (node.target == "aten::Float" || node.target == "aten::Int") node.overload = "Scalar";
}

Origin ExportedGraph::origin_of(const Part& node) {
  Origin origin;
  origin.op = next_op_++;
  if (node.has("name") && !node.at("name").is_null()) origin.name = node.at("name").text();
  origin.text = text_;
  place(node, origin);
  return origin;
}

// Without a module stack, only the module around the operation is known. The same holds for an operation from the
// generated code of a graph that was captured before in a module with modules inside: the graph does not contain their
// calls. An operator that takes graphs is called from generated code of its own.
void ExportedGraph::place(const Part& node, Origin& origin) {
  const Part metadata = node.at("metadata");
  origin.stack = metadata.has("stack_trace") ? modules_.stack_of(metadata.at("stack_trace").view()) : none_id;
  origin.scope = scope_;
  origin.basis = ScopeBasis::enclosing;
  if (!metadata.has("nn_module_stack")) return;
  const std::string_view text = metadata.at("nn_module_stack").view();
  if (text.starts_with(origin::keys::no_module_stack) || (!call_stack_.empty() && text == call_stack_)) return;
  if (region_ != nullptr) {
    const auto [scope, basis] = modules_.place_in(*region_, text);
    origin.scope = scope;
    origin.basis = basis;
    return;
  }
  origin.scope = modules_.scope_of(text);
  const bool captured_before = origin.stack != none_id && is_generated(program_.stacks[origin.stack].front()) &&
                               !node.at("target").view().starts_with(higher_order);
  if (!captured_before || !modules_.calls_modules(origin.scope)) origin.basis = ScopeBasis::observed;
}

// A parameter with several names may belong to each of their modules inside the known one.
void ExportedGraph::place_by_parameters(Node& node) const {
  if (node.origin.basis != ScopeBasis::enclosing) return;
  const std::string& around = program_.module_path(node.origin.scope);
  std::optional<ModuleId> owner;
  for (const NamedArgument& given : node.arguments) {
    const OperandNames names = parameter_names(given.value);
    bool inside = names.empty();
    for (const std::string& name : names) {
      const ModuleId module = modules_.owner_of(name);
      if (!at_or_below(program_.modules[module].path, around)) continue;
      if (owner && *owner != module) return;
      owner = module;
      inside = true;
    }
    if (!inside) return;
  }
  if (!owner) return;
  const std::size_t region = region_ == nullptr ? 0 : region_->number;
  node.origin.scope = modules_.scope_below(node.origin.scope, *owner, region);
  node.origin.basis = ScopeBasis::inferred;
}

void ExportedGraph::place_by_sources(const std::vector<std::pair<Part, std::size_t>>& read, Block& block) const {
  const auto is_unknown = [&](const auto& entry) {
    return block.nodes[entry.second].origin.basis == ScopeBasis::enclosing;
  };
  if (std::ranges::none_of(read, is_unknown)) return;
  const auto sources_of = [](const Part& node) {
    const auto text = node.at("metadata").maybe("from_node");
    return text && !text->is_null() ? fx_sources(text->view()) : std::vector<FxSource>();
  };
  std::map<FxSource, std::optional<ScopeId>> scope_of;  // nullopt: the source became nodes of several calls
  for (const auto& entry : read) {
    if (is_unknown(entry)) continue;
    const ScopeId scope = block.nodes[entry.second].origin.scope;
    for (const FxSource& source : sources_of(entry.first)) {
      const auto [known, is_new] = scope_of.try_emplace(source, scope);
      if (!is_new && known->second != scope) known->second.reset();
    }
  }
  for (const auto& entry : read) {
    if (!is_unknown(entry)) continue;
    Origin& origin = block.nodes[entry.second].origin;
    for (const FxSource& source : sources_of(entry.first)) {
      const auto known = scope_of.find(source);
      if (known == scope_of.end()) continue;
      const bool inside =
          known->second && at_or_below(program_.module_path(*known->second), program_.module_path(origin.scope));
      if (inside) {
        origin.scope = *known->second;
        origin.basis = ScopeBasis::inferred;
      }
      break;
    }
  }
}

void ExportedGraph::read_outputs(const Part& graph, const Part& outputs, Node& node) {
  const auto add = [&](const std::string& name) {
    node.outputs.push_back(declare(graph, name, ValueSource::node, node.origin.op));
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (kind == "as_tensor") {
      add(content.at("name").text());
    } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      add(content.at("as_name").text());
    } else if (kind == "as_tensors") {
      node.list_output = outputs.size() == 1;
      for (std::size_t each = 0; each < content.size(); ++each) add(content[each].at("name").text());
    } else if (kind != "as_none") {
      unsupported("a result of kind " + std::string(kind), "write the model without custom objects");
    }
  }
}

// torch.export may replace a view that keeps the number of elements with one that keeps the shape: for view(1, -1) of
// [n, 2] with n = 1 in the example it records [n, 2]. The sizes in the node itself are right.
void ExportedGraph::use_stated_sizes(const Node& node) {
  if (node.target != "aten::view" && node.target != "aten::reshape" && node.target != "aten::_unsafe_view") return;
  const Argument* size = node.find("size");
  const auto* items = size == nullptr ? nullptr : size->as<ArgumentList>();
  if (node.outputs.empty()) reading_.corrupt("its result is missing");
  auto& dims = program_.values[node.outputs.front()].type.dims;
  if (items == nullptr || !dims || items->size() != dims->size()) return;
  bool wrong = false;
  std::optional<std::size_t> rest;
  for (std::size_t axis = 0; axis < dims->size(); ++axis) {
    const auto* given = (*items)[axis].as<std::int64_t>();
    if (given == nullptr) continue;
    const Dim stated{*given, false, none_id};
    if (*given == -1) {
      rest = axis;
    } else if ((*dims)[axis] != stated) {
      (*dims)[axis] = stated;
      wrong = true;
    }
  }
  if (wrong && rest) (*dims)[*rest] = {-1, true, none_id};
}

void ExportedGraph::read_nodes(const Part& graph, Block& block) {
  const Part nodes = graph.at("nodes");
  block.nodes.reserve(block.nodes.size() + nodes.size());
  ArchiveTexts texts(graph);
  FlatSet<std::string_view> names;
  std::vector<std::pair<Part, std::size_t>> read;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    enter_node(reading_, i, nodes[i]);
    if (nodes[i].has("name") && !nodes[i].at("name").is_null() && !names.insert(nodes[i].at("name").view()).second) {
      reading_.corrupt("another node has this name");
    }
    if (texts_) text_ = texts.of(nodes[i]);
    const std::size_t before = block.nodes.size();
    read_node(graph, nodes[i], block);
    if (block.nodes.size() == before + 1) read.emplace_back(nodes[i], before);
  }
  place_by_sources(read, block);
}

// Refuses a node without a required argument, or with a list of the wrong length. For "int[2]" one number may stand for
// all elements; "int[1]" is a list of any length.
void ExportedGraph::require_arguments(const Node& node) const {
  const OpSchema* schema = OpTable::get().schema(qualified(node));
  if (schema == nullptr) return;
  for (const SchemaArgument& formal : schema->arguments) {
    const Argument* given = node.find(formal.name);
    if (given == nullptr) reading_.corrupt("its argument '" + formal.name + "' is missing");
    const auto* list = given->as<ArgumentList>();
    const auto stated = static_cast<std::size_t>(formal.type.list_size);
    if (list == nullptr || stated < 2 || list->size() == stated || list->size() == 1) continue;
    if (formal.default_value && *formal.default_value == *given) continue;
    reading_.corrupt("its argument '" + formal.name + "' has " + std::to_string(list->size()) +
                     " elements instead of " + std::to_string(stated));
  }
}

// Refuses a number in place of a tensor, except for operators that take either (x + 1). A written argument must be a
// tensor.
void ExportedGraph::require_tensors(const Node& node) const {
  constexpr std::array<std::string_view, 8> either = {"self", "other", "exponent", "value", "min", "max", "x", "y"};
  const auto is_value = [](const Argument& given) { return given.as<ValueRef>() != nullptr; };
  const bool writes = is_in_place_name(node.target) && !node.arguments.empty();
  const bool of_lists = node.target.starts_with("aten::_foreach_") || !node.target.starts_with("aten::");
  const bool a_list = of_lists && writes && node.arguments[0].value.as<ArgumentList>() != nullptr;
  const Argument* out = node.overload.ends_with("out") ? node.find("out") : nullptr;
  const bool to_number = out != nullptr && !is_value(*out) && out->as<ArgumentList>() == nullptr;
  if (to_number || (writes && !a_list && !is_value(node.arguments[0].value))) {
    reading_.corrupt("it writes to something that is not a tensor");
  }
  const OpSchema* schema = OpTable::get().schema(qualified(node));
  if (schema == nullptr) return;
  const bool has_tensor =
      std::ranges::any_of(node.arguments, [&](const NamedArgument& argument) { return is_value(argument.value); });
  for (const SchemaArgument& formal : schema->arguments) {
    const Argument* given = node.find(formal.name);
    if (given == nullptr || formal.type.base != "Tensor" || is_value(*given)) continue;
    if (given->is_none() && formal.type.optional) continue;
    if (formal.type.list) {
      const auto* list = given->as<ArgumentList>();
      const auto is_tensor_or_none = [&](const Argument& item) {
        return is_value(item) || (item.is_none() && formal.type.optional_element);
      };
      if (list != nullptr && std::ranges::all_of(*list, is_tensor_or_none)) continue;
    } else if (has_tensor && !formal.type.writes() && std::ranges::find(either, formal.name) != either.end() &&
               !given->is_none() && given->as<ArgumentList>() == nullptr && given->as<std::string>() == nullptr) {
      continue;
    }
    reading_.corrupt("its argument '" + formal.name + "' is not a tensor");
  }
}

void ExportedGraph::read_node(const Part& graph, const Part& part, Block& block) {
  const std::string target = part.at("target").text();
  if (target.starts_with(higher_order)) {
    const std::string name = target.substr(higher_order.size());
    if (read_higher_order(name, graph, part, block)) return;
    unsupported("the higher-order operator " + name + " is not supported", replacement_of(name));
  }
  Node node;
  const std::int32_t before = next_op_;
  node.origin = origin_of(part);
  if (target.starts_with("torch.ops.")) {
    set_target(target, node);
    if (is_check(target)) {
      next_op_ = before;
      return;
    }
    read_arguments(part.at("inputs"), node);
    fill_defaults(node);
    require_arguments(node);
    require_tensors(node);
  } else {
    read_arguments(part.at("inputs"), node);
    set_target(target, node);
  }
  read_outputs(graph, part.at("outputs"), node);
  use_stated_sizes(node);
  place_by_parameters(node);
  block.nodes.push_back(std::move(node));
}

}  // namespace whence::pt2
