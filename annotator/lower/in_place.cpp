#include "annotator/lower/in_place.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "annotator/convert/op_table.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/views.h"
#include "annotator/program/program_edit.h"
#include "schema/operator_facts.h"
#include "schema/result.h"

namespace whence::lower {

using convert::OpTable;

namespace {

// "aten::add_" -> "aten::add", "aten::__iand__" -> "aten::__and__"
std::string functional_name(const std::string& target) {
  if (target.ends_with("__")) return "aten::__" + target.substr(std::string_view("aten::__i").size());
  return target.substr(0, target.size() - 1);
}

// An operator whose functional form is not named as functional_name() returns, or takes different arguments.
struct Exception {
  std::string target;
  std::vector<NamedArgument> added = {};  // required by the functional form, defaulted by the in-place form
  std::string_view dropped = {};
};

const std::unordered_map<std::string, Exception>& exceptions() {
  static const std::unordered_map<std::string, Exception> table{
      {"aten::_index_put_impl_", {"aten::index_put", {}, "unsafe"}},
      {"aten::bernoulli_.float", {"aten::bernoulli", {{"p", {0.5}}}}},
      {"aten::normal_", {"aten::normal_functional"}},
      {"aten::zero_", {"aten::zeros_like"}},
  };
  return table;
}

std::string functional_target(const std::string& key) {
  const auto exception = exceptions().find(key);
  return exception == exceptions().end() ? functional_name(key.substr(0, key.find('.'))) : exception->second.target;
}

// Returns the source in the shape and dtype of self.
Written copied(const Program& program, const Node& node, const Argument& source) {
  const Argument& self = *node.find("self");
  const auto* to = self.as<ValueRef>();
  const auto* from = source.as<ValueRef>();
  if (to != nullptr && from != nullptr) {
    const Type& before = program.values[to->id].type;
    const Type& after = program.values[from->id].type;
    const bool fits =
        before.dtype != DType::undefined && before.dtype == after.dtype && program::same_shape(before, after);
    if (fits) return {std::nullopt, from->id};
  }
  return {program::node_like(node, "aten::copy", "", {{"self", self}, {"src", source}}), none_id};
}

// Returns true if the declared parameter accepts the argument. A number is accepted for a tensor only if `numbers` is
// set.
bool takes(const Program& program, const SchemaArgument& declared, const Argument& argument, bool numbers) {
  if (argument.is_none() || declared.type.list) return true;
  const auto* value = argument.as<ValueRef>();
  const bool tensor = value != nullptr && program.values[value->id].type.kind == ValueKind::tensor;
  const bool wants_tensor = declared.type.base == "Tensor";
  return tensor == wants_tensor || (wants_tensor && numbers);
}

// Renames the arguments to those of `schema`, by name or by position: dropout_(self, p, train) -> dropout(input, p,
// train). Returns nullopt if the operator takes other arguments or needs more.
std::optional<std::vector<NamedArgument>> as_declared(const Program& program, const OpSchema& schema,
                                                      std::vector<NamedArgument> arguments, bool numbers) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const SchemaArgument* declared = schema.find(arguments[i].name);
    if (declared == nullptr && i < schema.arguments.size() && !schema.arguments[i].keyword_only) {
      declared = &schema.arguments[i];
    }
    if (declared == nullptr || !takes(program, *declared, arguments[i].value, numbers)) return std::nullopt;
    arguments[i].name = declared->name;
  }
  const bool complete = std::ranges::all_of(schema.arguments, [&](const SchemaArgument& declared) {
    const auto count = std::ranges::count(arguments, declared.name, &NamedArgument::name);
    return count == 1 || (count == 0 && declared.default_value);
  });
  return complete ? std::optional(std::move(arguments)) : std::nullopt;
}

// Returns a call of `target` with `arguments`, using the first overload that accepts them: the node's own, then
// overloads that take numbers as numbers, then those that take them as tensors. pow_.Scalar(x, 2) ->
// pow.Tensor_Scalar(x, 2).
Node call(const Program& program, const Node& node, const std::string& target, std::vector<NamedArgument> arguments) {
  const std::string own = node.overload.empty() ? target : target + "." + node.overload;
  std::vector<std::pair<std::string, bool>> candidates{{own, true}};
  const std::vector<std::string> overloads = OpTable::get().overloads(target);
  for (const bool numbers : {false, true}) {
    for (const std::string& key : overloads) candidates.emplace_back(key, numbers);
  }
  for (const auto& [key, numbers] : candidates) {
    const OpSchema* schema = OpTable::get().schema(key);
    if (schema == nullptr) continue;
    if (auto declared = as_declared(program, *schema, arguments, numbers)) {
      return program::node_like(node, target, schema->overload, std::move(*declared));
    }
  }
  return program::node_like(node, target, node.overload, std::move(arguments));  // refused later: it has no converter
}

// add.out(x, y, alpha, out=z) -> add.Tensor(x, y, alpha). The old content of `out` is overwritten; dtype and shape are
// those that PyTorch recorded.
Node without_out(const Program& program, const Node& node) {
  std::vector<NamedArgument> arguments = node.arguments;
  std::erase_if(arguments, [](const NamedArgument& argument) { return argument.name == "out"; });
  return call(program, node, node.target, std::move(arguments));
}

Node without_underscore(const Program& program, const Node& node) {
  std::vector<NamedArgument> arguments = node.arguments;
  if (const auto exception = exceptions().find(qualified(node)); exception != exceptions().end()) {
    for (const NamedArgument& each : exception->second.added) {
      if (node.find(each.name) == nullptr) arguments.push_back(each);
    }
    std::erase_if(arguments, [&](const NamedArgument& argument) { return argument.name == exception->second.dropped; });
  }
  return call(program, node, functional_target(qualified(node)), std::move(arguments));
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
  return is_in_place_name(name);
}

bool only_writes(const Node& node) {
  if (!node.outputs.empty() || !node.blocks.empty()) return false;
  if (node.target.starts_with("aten::") || node.target.starts_with("prim::")) return false;
  return std::ranges::any_of(node.arguments, [](const NamedArgument& argument) {
    return argument.value.as<ValueRef>() != nullptr || argument.value.as<ArgumentList>() != nullptr;
  });
}

std::optional<SharedMemory> shared_memory(const Program& program, const Node& node) {
  if (is_in_place(node)) {
    const auto* written = written_argument(node).as<ValueRef>();
    if (written == nullptr) return std::nullopt;
    return SharedMemory{std::vector(std::max<std::size_t>(1, node.outputs.size()), written->id), true};
  }
  const ViewInfo view = view_info(program, node);
  if (view.kind == ViewKind::none) return std::nullopt;
  SharedMemory memory;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) memory.values.push_back(view.viewed_by(i));
  return memory;
}

bool has_functional_form(const std::string& key) {
  const std::string_view name(key.data(), std::min(key.find('.'), key.size()));
  return is_in_place_name(name) && !OpTable::get().overloads(functional_target(key)).empty();
}

Written functional_form(const Program& program, const Node& node) {
  if (writes_out(node)) return {without_out(program, node), none_id};
  const bool filled = node.target == "aten::fill_", copies = node.target == "aten::copy_";
  if (node.find("self") == nullptr || (filled && node.find("value") == nullptr) ||
      (copies && node.arguments.size() < 2)) {
    throw Error(Code::corrupt_file, qualified(node) + ": an argument is missing", "save the model again",
                program::place_of(program, node, "lower"));
  }
  const Argument& self = *node.find("self");
  if (copies) return copied(program, node, node.arguments[1].value);  // src, or `other`
  if (node.target == "aten::fill_" && node.overload == "Tensor") {
    return copied(program, node, *node.find("value"));
  }
  if (node.target == "aten::fill_") {
    return {program::node_like(node, "aten::full_like", "", {{"self", self}, {"fill_value", *node.find("value")}}),
            none_id};
  }
  if (facts_of(node.target).keeps_content) return {std::nullopt, self.as<ValueRef>()->id};
  return {without_underscore(program, node), none_id};
}

}  // namespace whence::lower
