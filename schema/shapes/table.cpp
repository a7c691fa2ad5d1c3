// Shape functions for operators that create tensors, the table of all rows, and integer arithmetic.
#include <algorithm>

#include "schema/flat_map.h"
#include "schema/operator_facts.h"
#include "schema/shapes/shape_call.h"

namespace whence {

namespace shapes {

namespace {

Shapes of_size(const ShapeCall& call) { return {call.integers("size")}; }
Shapes no_axes(const ShapeCall&) { return {{}}; }

Shapes arange(const ShapeCall& call) {
  for (const char* name : {"start", "end", "step"}) {
    if (call.has(name) && call.argument(name).as<double>() != nullptr) throw NoShape();
  }
  const Size count = call.integer("end") - call.integer("start", Size(0)), step = call.integer("step", Size(1));
  if (call.negative(step)) return {{call.at_least_0(ceil_div(Size(0) - count, Size(0) - step))}};
  if (!call.not_negative(step)) throw NoShape();
  return {{call.at_least_0(ceil_div(count, step))}};
}

Shapes steps(const ShapeCall& call) { return {{call.integer("steps")}}; }

Shapes eye(const ShapeCall& call) {
  const Size rows = call.integer("n");
  return {{rows, call.integer("m", rows)}};
}

Shapes window(const ShapeCall& call) { return {{call.integer("window_length")}}; }

}  // namespace

const std::vector<Row>& maker_rows() {
  static const std::vector<Row> rows = {
      {of_size, "empty full ones rand randint randn zeros new_empty new_full new_ones new_zeros"},
      {arange, "arange"},
      {steps, "linspace logspace"},
      {eye, "eye"},
      {window, "hann_window hamming_window blackman_window bartlett_window"},
      {no_axes, "scalar_tensor"},
  };
  return rows;
}

namespace {

using Table = FlatMap<std::string_view, ShapeFunction>;

const Table& table() {
  static const Table by_name = [] {
    Table table;
    for (const auto* rows :
         {&pointwise_rows(), &view_rows(), &join_rows(), &product_rows(), &window_rows(), &maker_rows()}) {
      for (const Row& row : *rows) {
        std::string_view names = row.operators;
        while (!names.empty()) {
          const std::string_view name = names.substr(0, names.find(' '));
          table.emplace(name, row.function);
          names.remove_prefix(std::min(name.size() + 1, names.size()));
        }
      }
    }
    return table;
  }();
  return by_name;
}

// Returns the name without "aten::"; empty for other namespaces.
std::string_view name_in_aten(const Node& node) {
  constexpr std::string_view aten = "aten::";
  const std::string_view target = node.target;
  return target.starts_with(aten) ? target.substr(aten.size()) : std::string_view();
}

ShapeFunction function_of(const Node& node) {
  const std::string_view name = name_in_aten(node);
  const auto row = table().find(name);
  return row == table().end() ? nullptr : row->second;
}

// In-place operators return their first argument.
bool returns_first(const Node& node) { return node.outputs.size() == 1 && is_in_place_name(name_in_aten(node)); }

// Returns the result of an arithmetic operator on one or two integers.
Size arithmetic(const ShapeCall& call, std::string_view name) {
  const auto& arguments = call.node().arguments;
  const Size a = call.integer_of(arguments.at(0).value);
  const auto b = [&] { return call.integer_of(arguments.at(1).value); };
  const auto scaled_b = [&] { return call.has("alpha") ? b() * call.integer("alpha") : b(); };
  if (name == "add") return a + scaled_b();
  if (name == "sub") return a - scaled_b();
  if (name == "rsub") return b() - a;
  if (name == "mul") return a * b();
  if (name == "floordiv" || name == "floor_divide") return floor_div(a, b());
  if (name == "div") {
    const auto* mode = call.has("rounding_mode") ? call.argument("rounding_mode").as<std::string>() : nullptr;
    const bool floor = mode != nullptr && (*mode == "floor" || (call.not_negative(a) && call.not_negative(b())));
    return floor ? floor_div(a, b()) : Size::unknown();
  }
  if (name == "remainder") return modulo(a, b());
  if (name == "neg") return Size(-1) * a;
  if ((name == "min" || name == "minimum") && arguments.size() == 2) return minimum({a, b()});
  if ((name == "max" || name == "maximum") && arguments.size() == 2) return maximum({a, b()});
  const bool same = name == "Int" || name == "IntImplicit" || name == "ScalarImplicit" || name == "NumToTensor" ||
                    name == "item" || name == "detach" || name == "clone" || name == "alias" || name == "lift" ||
                    name == "lift_fresh" || name == "_local_scalar_dense" || name == "unchecked_cast";
  return same ? a : Size::unknown();
}

}  // namespace

}  // namespace shapes

std::optional<std::vector<Shape>> shapes_of_results(const Node& node, const ShapeFacts& facts) {
  const shapes::ShapeFunction function = shapes::function_of(node);
  try {
    const shapes::ShapeCall call(node, facts);
    if (function != nullptr) return function(call);
    if (const ViewForm form = facts_of(node.target).view; form != ViewForm::none) {
      return shapes::shapes_of_view(call, form);
    }
    if (shapes::returns_first(node)) return std::vector<Shape>{call.first()};
  } catch (const shapes::NoShape&) {
  } catch (const std::out_of_range&) {
  }
  return std::nullopt;
}

Size number_of_result(const Node& node, const ShapeFacts& facts) {
  const std::string_view name = std::string_view(node.target).substr(node.target.find("::") + 2);
  try {
    const shapes::ShapeCall call(node, facts);
    if ((name == "size" || name == "sym_size") && node.arguments.size() == 2) {
      return call.first()[call.axis("dim", call.first().size())];
    }
    if (name == "numel") return shapes::product_of(call.first());
    if (name == "len") return call.first().at(0);
    return shapes::arithmetic(call, name);
  } catch (const shapes::NoShape&) {
  } catch (const std::out_of_range&) {
  }
  return Size::unknown();
}

std::vector<std::string_view> operators_with_shapes() {
  std::vector<std::string_view> names;
  for (const auto& [name, function] : shapes::table()) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

}  // namespace whence
