#include "annotator/metadata/fx_names.h"

#include <algorithm>
#include <cctype>

#include "annotator/convert/op_table.h"
#include "annotator/metadata/fx_namespace.h"
#include "annotator/origin/python_text.h"
#include "schema/program_walk.h"
#include "schema/sort_unique.h"

namespace whence::metadata {

using origin::python_float;

namespace {

std::string with_dots(const std::string& target) {
  const std::size_t colons = target.find("::");
  return colons == std::string::npos ? target : target.substr(0, colons) + "." + target.substr(colons + 2);
}

std::string base_of(const std::string& target) {
  const std::size_t colons = target.find("::");
  return colons == std::string::npos ? target : target.substr(colons + 2);
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const char* prefix(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::parameter:
      return "p_";
    case ParameterKind::buffer:
      return "b_";
    case ParameterKind::attribute:
      return "c_";
  }
  return "";
}

// Counts each distinct value of one reader as one use.
void count_once(std::vector<ValueId> values, IndexedVector<ValueId, std::int32_t>& users) {
  sort_unique(values);
  for (const ValueId value : values) ++users[value];
}

// Returns "aten.linear.default", "aten.add.Tensor".
std::string torch_target(const Node& node) {
  return with_dots(node.target) + "." + (node.overload.empty() ? "default" : node.overload);
}

}  // namespace

FxNames::FxNames(const Program& program)
    : program_(program), from_fx_(!program.signature.empty()), operations_(operations(program)) {
  if (!from_fx_) assign_names();
}

// Names parameters and buffers first, then inputs, then nodes, as torch.export does.
void FxNames::assign_names() {
  FxNamespace names;
  nodes_.resize(operations_.size());
  values_.resize(program_.values.size());
  for (const ValueId id : values_.keys()) {
    const Value& value = program_.values[id];
    if (value.source != ValueSource::parameter) continue;
    const Parameter& parameter = program_.parameters[ParameterId(value.index)];
    values_[id] = names.create(lower_case(prefix(parameter.kind) + parameter.name));
  }
  for (const ProgramInput& input : program_.inputs) values_[input.value] = names.create(input.name);
  for (std::size_t op = 0; op < operations_.size(); ++op) {
    const Node& node = *operations_[op];
    nodes_[op] = names.create(base_of(node.target));
    if (node.outputs.size() == 1 && !node.list_output) {
      values_[node.outputs[0]] = nodes_[op];
    } else {
      for (const ValueId output : node.outputs) values_[output] = names.create("getitem");
    }
  }
  for (const ValueId id : values_.keys()) {
    if (values_[id].empty()) values_[id] = names.create(program_.values[id].name);
  }
}

std::string FxNames::name(std::int32_t op) const { return from_fx_ ? recorded_name(*operations_[op]) : nodes_[op]; }

// Reads the name from the text of an fx node, which begins with "%name : ".
std::string FxNames::recorded_name(const Node& node) {
  const std::string& text = node.origin.text;
  const std::size_t end = text.find(' ');
  if (text.starts_with('%') && end != std::string::npos) return text.substr(1, end - 1);
  return node.origin.name.empty() ? base_of(node.target) : node.origin.name;
}

void FxNames::count_users() const {
  users_.resize(program_.values.size());
  for (const Node* node : operations_) {
    std::vector<ValueId> values;
    each_operand(*node, [&](ValueId id) { values.push_back(id); });
    count_once(std::move(values), users_);
  }
  std::vector<ValueId> returned;
  for (const ProgramOutput& output : program_.outputs)
    each_value(output.value, [&](ValueId id) { returned.push_back(id); });
  count_once(std::move(returned), users_);
}

std::string FxNames::format_argument(const Argument& argument) const {
  struct Print {
    const FxNames& names;
    std::string operator()(None) const { return "None"; }
    std::string operator()(ValueRef value) const { return "%" + names.value_name(value.id); }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return python_float(number); }
    std::string operator()(bool flag) const { return flag ? "True" : "False"; }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(DType dtype) const { return "torch." + std::string(name_of(dtype)); }
    std::string operator()(const Keyword& word) const { return word.name; }
    std::string operator()(ComplexNumber number) const {
      return "(" + python_float(number.real) + (number.imag < 0 ? "" : "+") + python_float(number.imag) + "j)";
    }
    std::string operator()(const ArgumentList& list) const {
      std::string items;
      for (const Argument& element : list) origin::append_item(items, names.format_argument(element));
      return "[" + items + "]";
    }
  };
  return std::visit(Print{*this}, argument.data);
}

// Prints positional arguments up to the last one that is not at its default, and keyword-only arguments that are not at
// their defaults.
FxLine FxNames::line_of(const Node& node) const {
  const OpSchema* schema = convert::OpTable::get().schema(qualified(node));
  const auto at_default = [&](const NamedArgument& argument) {
    const SchemaArgument* formal = schema == nullptr ? nullptr : schema->find(argument.name);
    return formal != nullptr && formal->default_value && *formal->default_value == argument.value;
  };
  const auto keyword_only = [&](const NamedArgument& argument) {
    const SchemaArgument* formal = schema == nullptr ? nullptr : schema->find(argument.name);
    return formal != nullptr && formal->keyword_only;
  };
  std::size_t needed = 0;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    if (!keyword_only(node.arguments[i]) && !at_default(node.arguments[i])) needed = i + 1;
  }
  FxLine line;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const NamedArgument& argument = node.arguments[i];
    if (!keyword_only(argument)) {
      if (i < needed) line.positional(format_argument(argument.value));
    } else if (!at_default(argument)) {
      line.keyword(argument.name, format_argument(argument.value));
    }
  }
  return line;
}

std::string FxNames::target(std::int32_t op) const {
  constexpr std::string_view before = "[target=", operators = "torch.ops.", python = "operator.",
                             higher_order = "torch.ops.higher_order.";
  const std::string& text = operations_[op]->origin.text;
  const std::size_t start = text.find(before), end = text.find("](");
  if (start == std::string::npos || end == std::string::npos || end < start) return torch_target(*operations_[op]);
  const std::string target = text.substr(start + before.size(), end - start - before.size());
  if (target.starts_with(higher_order))
    return target.substr(higher_order.size());  // __name__ of the operator object in Python
  if (target.starts_with(operators)) return target.substr(operators.size());
  if (target.starts_with(python)) return "<built-in function " + target.substr(python.size()) + ">";
  return target;
}

// Several results are extracted by getitem nodes, which are then the users: returns the number of used results.
std::int32_t FxNames::users_of(const Node& node) const {
  if (users_.empty()) count_users();
  if (node.outputs.size() == 1 && !node.list_output) return users_[node.outputs[0]];
  return static_cast<std::int32_t>(
      std::ranges::count_if(node.outputs, [&](ValueId output) { return users_[output] > 0; }));
}

std::string FxNames::format(std::int32_t op) const {
  const Node& node = *operations_[op];
  if (const std::string& text = node.origin.text; !text.empty()) return text;
  return line_of(node).text(name(op), users_of(node), "torch.ops." + torch_target(node));
}

}  // namespace whence::metadata
