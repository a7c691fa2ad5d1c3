#include "annotator/lower/in_place.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "annotator/export/op_table.h"
#include "annotator/lower/views.h"

namespace whence {
namespace {

// Not every name of this form: __is__ asks for identity.
bool is_in_place_dunder(std::string_view name) {
  return name == "aten::__iand__" || name == "aten::__ior__" || name == "aten::__ixor__" ||
         name == "aten::__ilshift__" || name == "aten::__irshift__";
}

// "aten::add_" -> "aten::add", "aten::__iand__" -> "aten::__and__"
std::string functional_name(const std::string& target) {
  if (is_in_place_dunder(target)) return "aten::__" + target.substr(std::string_view("aten::__i").size());
  return target.substr(0, target.size() - 1);
}

// In-place operators whose functional form has another key than the rule gives.
const std::unordered_map<std::string, std::pair<std::string, std::string>>& exceptions() {
  static const std::unordered_map<std::string, std::pair<std::string, std::string>> table{
      {"aten::_index_put_impl_", {"aten::index_put", ""}},
      {"aten::float_power_.Scalar", {"aten::float_power", "Tensor_Scalar"}},
      {"aten::float_power_.Tensor", {"aten::float_power", "Tensor_Tensor"}},
      {"aten::normal_", {"aten::normal_functional", ""}},
      {"aten::pow_.Scalar", {"aten::pow", "Tensor_Scalar"}},
      {"aten::pow_.Tensor", {"aten::pow", "Tensor_Tensor"}},
      {"aten::floor_divide_.Scalar", {"aten::floor_divide", "Scalar"}},
      {"aten::floor_divide_.Tensor", {"aten::floor_divide", ""}},
      {"aten::transpose_", {"aten::transpose", "int"}},
      {"aten::zero_", {"aten::zeros_like", ""}},
  };
  return table;
}

const Argument* argument_of(const Node& node, std::string_view name) { return node.find(name); }

Node with(const Node& in_place, std::string target, std::string overload, std::vector<NamedArgument> arguments) {
  Node node;
  node.target = std::move(target);
  node.overload = std::move(overload);
  node.arguments = std::move(arguments);
  node.origin = in_place.origin;
  return node;
}

// The source in the shape and dtype of self.
Written copied(const Program& program, const Node& node, const Argument& source) {
  const Argument& self = *argument_of(node, "self");
  const auto* to = self.as<ValueRef>();
  const auto* from = source.as<ValueRef>();
  if (to != nullptr && from != nullptr) {
    const Type& before = program.values[to->id].type;
    const Type& after = program.values[from->id].type;
    const bool fits = before.dtype != DType::undefined && before.dtype == after.dtype && same_shape(before, after);
    if (fits) return {std::nullopt, from->id};
  }
  return {with(node, "aten::copy", "", {{"self", self}, {"src", source}}), none_id};
}

// add.out(x, y, alpha, out=z) -> add.Tensor(x, y, alpha): of the operator's overloads the one that takes all arguments
// but `out`, and needs no other. What `out` was is written over, dtype and shape as PyTorch recorded them.
Written without_out(const Program& program, const Node& node) {
  std::vector<NamedArgument> arguments = node.arguments;
  std::erase_if(arguments, [](const NamedArgument& argument) { return argument.name == "out"; });
  const auto fits = [&](const OpSchema& schema) {
    for (const NamedArgument& argument : arguments) {
      const SchemaArgument* declared = schema.find(argument.name);
      const auto* value = argument.value.as<ValueRef>();
      const bool tensor = value != nullptr && program.values[value->id].type.kind == ValueKind::tensor;
      if (declared == nullptr || (tensor && declared->type.base != "Tensor")) return false;
    }
    return std::all_of(schema.arguments.begin(), schema.arguments.end(), [&](const SchemaArgument& declared) {
      const bool given = std::any_of(arguments.begin(), arguments.end(),
                                     [&](const NamedArgument& argument) { return argument.name == declared.name; });
      return given || declared.default_value;
    });
  };
  for (const std::string& key : OpTable::get().overloads(node.target)) {
    if (!fits(*OpTable::get().schema(key))) continue;
    const std::size_t dot = key.find('.');
    return {with(node, node.target, dot == std::string::npos ? "" : key.substr(dot + 1), std::move(arguments)),
            none_id};
  }
  return {with(node, node.target, node.overload, node.arguments), none_id};  // refused later: it has no converter
}

}  // namespace

bool writes_out(const Node& node) {
  return node.target.starts_with("aten::") && node.overload.ends_with("out") && node.find("out") != nullptr;
}

const Argument& written_argument(const Node& node) { return *node.find(writes_out(node) ? "out" : "self"); }

bool is_in_place(const Node& node) {
  if (writes_out(node)) return true;
  const std::string_view name = node.target;
  if (!name.starts_with("aten::") || node.find("self") == nullptr) return false;
  return is_in_place_dunder(name) || (name.ends_with("_") && !name.ends_with("__"));
}

bool only_writes(const Node& node) {
  if (!node.outputs.empty() || !node.blocks.empty()) return false;
  if (node.target.starts_with("aten::") || node.target.starts_with("prim::")) return false;
  return std::ranges::any_of(node.arguments, [](const NamedArgument& argument) {
    return argument.value.as<ValueRef>() != nullptr || argument.value.as<ArgumentList>() != nullptr;
  });
}

std::optional<SharedMemory> shared_memory(const Program& program, const Node& node) {
  const bool written = is_in_place(node);
  const ViewInfo view = written ? ViewInfo{ViewKind::same, ""} : view_info(program, node);
  if (view.kind == ViewKind::none) return std::nullopt;
  const auto* value = (written ? written_argument(node) : *node.find(view.argument)).as<ValueRef>();
  if (value == nullptr) return std::nullopt;
  return SharedMemory{value->id, written, view.kind == ViewKind::same};
}

Written functional_form(const Program& program, const Node& node) {
  if (writes_out(node)) return without_out(program, node);
  const Argument& self = *argument_of(node, "self");
  if (node.target == "aten::copy_") return copied(program, node, *argument_of(node, "src"));
  if (node.target == "aten::fill_" && node.overload == "Tensor") {
    return copied(program, node, *argument_of(node, "value"));
  }
  if (node.target == "aten::fill_") {
    return {with(node, "aten::full_like", "", {{"self", self}, {"fill_value", *argument_of(node, "value")}}), none_id};
  }
  if (node.target == "aten::detach_" || node.target == "aten::requires_grad_") {
    return {std::nullopt, self.as<ValueRef>()->id};
  }
  std::string target = functional_name(node.target), overload = node.overload;
  if (const auto other = exceptions().find(qualified(node)); other != exceptions().end()) {
    std::tie(target, overload) = other->second;
  }
  std::vector<NamedArgument> arguments = node.arguments;
  if (node.target == "aten::_index_put_impl_") {
    arguments.erase(std::remove_if(arguments.begin(), arguments.end(),
                                   [](const NamedArgument& argument) { return argument.name == "unsafe"; }),
                    arguments.end());
  }
  return {with(node, std::move(target), std::move(overload), std::move(arguments)), none_id};
}

}  // namespace whence
