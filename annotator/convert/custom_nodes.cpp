// Writes operators as nodes of a custom domain with the arguments of the call: for the user's ONNX functions, for a
// runtime that has the operator, or for a tool that replaces the node in the file.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "annotator/convert/convert.h"
#include "annotator/program/program_facts.h"
#include "schema/json_text.h"

namespace whence::convert {

using program::named_in;

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Argument& argument, const std::vector<Argument>& inputs) {
  if (const auto input = std::ranges::find(inputs, argument); input != inputs.end()) {
    return {{"input", input - inputs.begin()}};
  }
  if (const auto* integer = argument.as<std::int64_t>()) return *integer;
  if (const auto* flag = argument.as<bool>()) return *flag;
  if (const auto* text = argument.as<std::string>()) return *text;
  if (const auto* dtype = argument.as<DType>()) return {{"dtype", std::string(name_of(*dtype))}};
  if (const auto* keyword = argument.as<Keyword>()) return {{"keyword", keyword->name}};
  if (const auto* number = argument.as<ComplexNumber>()) return {{"complex", {number->real, number->imag}}};
  if (const auto* number = argument.as<double>()) {
    if (std::isfinite(*number)) return *number;
    return {{"number", std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf"}};
  }
  if (const auto* list = argument.as<ArgumentList>()) {
    Json elements = Json::array();
    for (const Argument& element : *list) elements.push_back(json_of(element, inputs));
    return elements;
  }
  return nullptr;
}

template <class T>
bool all_are(const ArgumentList& list) {
  return std::ranges::all_of(list, [](const Argument& each) { return each.as<T>() != nullptr; });
}

template <class To, class From>
std::vector<To> elements(const ArgumentList& list) {
  std::vector<To> values;
  for (const Argument& each : list) values.push_back(static_cast<To>(*each.as<From>()));
  return values;
}

// Adds an argument as an ONNX attribute; returns false if an attribute cannot hold it, as for a tensor.
bool add_attribute(Attributes& to, const std::string& name, const Argument& value) {
  const auto add = [&](auto attribute) {
    to.push_back({name, std::move(attribute)});
    return true;
  };
  if (const auto* integer = value.as<std::int64_t>()) return add(*integer);
  if (const auto* flag = value.as<bool>()) return add(static_cast<std::int64_t>(*flag));
  if (const auto* number = value.as<double>()) return add(static_cast<float>(*number));
  if (const auto* text = value.as<std::string>()) return add(*text);
  if (const auto* dtype = value.as<DType>()) return add(std::string(name_of(*dtype)));
  const auto* list = value.as<ArgumentList>();
  if (list == nullptr) return false;
  if (all_are<std::int64_t>(*list)) return add(elements<std::int64_t, std::int64_t>(*list));
  if (all_are<bool>(*list)) return add(elements<std::int64_t, bool>(*list));
  if (all_are<double>(*list)) return add(elements<float, double>(*list));
  return all_are<std::string>(*list) && add(elements<std::string, std::string>(*list));
}

// Returns the exact arguments of a call as JSON, by name. Numbers, texts, flags, lists and null stay as they are;
// {"input": 2} is the node's third input. Other forms: {"dtype": "float32"}, {"keyword": "cpu"}, {"complex": [0, 1]},
// {"number": "inf"}.
std::string arguments_as_json(const Node& node, const std::vector<Argument>& inputs) {
  Json arguments = Json::object();
  for (const NamedArgument& each : node.arguments) arguments[each.name] = json_of(each.value, inputs);
  return json_text(arguments);
}

}  // namespace

// Turns a 0-d constant back into the Python number it was: a trace holds x + 1.5 as an operator of two tensors.
Argument ConvertSession::as_python_number(const Argument& argument) const {
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr || program_.source.kind == "torch.export") return argument;
  const Type& type = program_.values[reference->id].type;
  if (type.kind != ValueKind::tensor || !type.dims || !type.dims->empty()) return argument;
  const TensorData* content = known(reference->id);
  if (content == nullptr) return argument;
  const auto number = [&](auto value) {
    std::memcpy(&value, content->bytes.in_memory().value().data(), sizeof value);
    return Argument{value};
  };
  if (content->dtype == DType::float64) return number(double{});
  return content->dtype == DType::int64 ? number(std::int64_t{}) : argument;
}

// aten::foo(x, [y, z], dim=1) -> whence.aten::foo(x, y, z) with attributes dim, overload, inputs = [self, list.0, ...].
// For a kept operator, the attribute `arguments` also holds all of the arguments.
void ConvertSession::convert_as_custom(const Node& node) {
  try {
    Node call = node;
    const bool kept = is_kept(node);
    std::vector<Argument> inputs;
    std::vector<std::string> input_names;
    Attributes attributes;
    const auto input = [&](const std::string& name, const Argument& argument) {
      inputs.push_back(argument);
      input_names.push_back(name);
    };
    for (NamedArgument& argument : call.arguments) {
      if (kept) argument.value = as_python_number(argument.value);
      if (add_attribute(attributes, argument.name, argument.value)) continue;
      if (argument.value.as<ValueRef>() != nullptr) input(argument.name, argument.value);
      const auto* list = argument.value.as<ArgumentList>();
      for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const bool literal = kept && (*list)[i].as<ValueRef>() == nullptr;
        if (!(*list)[i].is_none() && !literal) input(argument.name + "." + std::to_string(i), (*list)[i]);
      }
    }
    if (kept) attributes.push_back({"arguments", arguments_as_json(call, inputs)});
    if (!node.overload.empty()) attributes.push_back({"overload", node.overload});
    attributes.push_back({"inputs", std::move(input_names)});
    bind_custom(node, inputs, std::move(attributes));
  } catch (const Poisoned&) {
    poison_outputs(node);
  } catch (const Error& error) {
    record(error);
    poison_outputs(node);
  }
}

void ConvertSession::bind_custom(const Node& node, const std::vector<Argument>& inputs, Attributes attributes) {
  const std::string* function = named_in(options_.custom_operators, qualified(node));
  const std::string name = function != nullptr && !is_kept(node) ? *function : node.target;
  const std::size_t colons = name.find("::");
  const std::string domain = (is_passed_through(node) ? "" : "whence.") + name.substr(0, colons);
  std::vector<graph::GraphValueId> input_ids;
  for (const Argument& input : inputs) input_ids.push_back(value_of(input));
  const auto results = emit(domain, name.substr(colons == std::string::npos ? 0 : colons + 2), std::move(input_ids),
                            std::move(attributes), static_cast<int>(node.outputs.size()));
  for (std::size_t i = 0; i < results.size(); ++i) bind(node.outputs[i], results[i]);
}

bool ConvertSession::is_passed_through(const Node& node) const {
  return options_.passed_through.contains(node.target.substr(0, node.target.find("::"))) && !is_custom_operator(node);
}

// If an operator has both a function and a replacement, the one whose name includes the overload wins; otherwise the
// replacement does.
bool ConvertSession::is_kept(const Node& node) const {
  const std::string *function = named_in(options_.custom_operators, qualified(node)),
                    *kept = named_in(options_.kept_operators, qualified(node));
  return kept != nullptr && (function == nullptr || kept->size() >= function->size());
}

bool ConvertSession::is_custom_operator(const Node& node) const {
  return named_in(options_.custom_operators, qualified(node)) != nullptr ||
         named_in(options_.kept_operators, qualified(node)) != nullptr;
}

}  // namespace whence::convert
