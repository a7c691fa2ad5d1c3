// Memory layouts of tensors with symbolic sizes, and the conditions under which a reshape is a view.
#include "schema/place.h"

#include <gtest/gtest.h>

#include "schema/size_text.h"

namespace whence {
namespace {

const Size n = Size::symbol(SymbolId(0)), m = Size::symbol(SymbolId(1));

Argument value(ValueId id) { return {ValueRef{id}}; }
// Builds views in a program with the axes n and m.
class Views {
 public:
  Views() {
    program.placed = true;
    program.symbols.items() = {{"n", 3}, {"m", 5}};
  }

  // -1 is the size n, -2 is m, and -3 is a dynamic size without a symbol.
  ValueId tensor(std::initializer_list<std::int64_t> sizes) {
    Value new_value;
    std::vector<Dim>& dims = new_value.type.dims.emplace();
    for (const std::int64_t size : sizes) {
      dims.push_back(size >= 0    ? Dim{size, false, none_id}
                     : size == -3 ? Dim{7, true, none_id}
                                  : Dim{-1 - size == 0 ? 3 : 5, true, SymbolId(-1 - size)});
    }
    return program.values.add(std::move(new_value));
  }
  MemoryPlace rows(std::initializer_list<std::int64_t> sizes) { return *row_major_place(program, tensor(sizes)); }

  Node node(const char* target, std::vector<NamedArgument> arguments, std::initializer_list<std::int64_t> result,
            std::size_t results = 1) {
    Node new_node;
    new_node.target = target;
    new_node.arguments = {{"self", value(ValueId(0))}};
    new_node.arguments.insert(new_node.arguments.end(), arguments.begin(), arguments.end());
    for (std::size_t i = 0; i < results; ++i) new_node.outputs.push_back(tensor(result));
    return new_node;
  }
  MemoryPlace view_of(const MemoryPlace& base, const char* target, std::vector<NamedArgument> arguments,
                      std::initializer_list<std::int64_t> result) {
    return place_of_view(program, node(target, std::move(arguments), result), 0, base).value();
  }
  Sharing sharing(const MemoryPlace& base, const char* target, std::initializer_list<std::int64_t> result) {
    return sharing_of(program, node(target, {}, result), base);
  }

  Program program;
};

std::vector<NamedArgument> dims(std::int64_t a, std::int64_t b) { return {{"dim0", {a}}, {"dim1", {b}}}; }

bool is_view(const Sharing& sharing, std::int64_t rows, std::int64_t columns) {
  const auto number = [&](SymbolId id) { return std::optional(id == SymbolId(0) ? rows : columns); };
  for (const Constraint& constraint : sharing.condition) {
    if (!holds(constraint, number).value()) return false;
  }
  return true;
}

TEST(Places, ViewsHaveOffsetsAndStrides) {
  Views v;
  const MemoryPlace x = v.rows({-1, -2, 4});
  EXPECT_EQ(x.strides, (std::vector<Size>{m * 4, 4, 1}));
  const MemoryPlace second =
      v.view_of(x, "aten::select", {{"dim", {std::int64_t{1}}}, {"index", {std::int64_t{-1}}}}, {-1, 4});
  EXPECT_EQ(second.offset, (m - 1) * 4);
  EXPECT_EQ(second.strides, (std::vector<Size>{m * 4, 1}));
  const MemoryPlace swapped = v.view_of(x, "aten::transpose", dims(0, 1), {-2, -1, 4});
  EXPECT_EQ(swapped.strides, (std::vector<Size>{4, m * 4, 1}));
  EXPECT_EQ(swapped.sizes, (std::vector<Size>{m, n, 4}));
  const auto step =
      std::vector<NamedArgument>{{"dim", {std::int64_t{2}}}, {"start", {std::int64_t{1}}}, {"step", {std::int64_t{2}}}};
  const MemoryPlace odd = v.view_of(x, "aten::slice", step, {-1, -2, 2});
  EXPECT_EQ(odd.offset, Size(1));
  EXPECT_EQ(odd.strides[2], Size(2));
  EXPECT_EQ(v.view_of(swapped, "aten::view", {}, {-2, -1, 2, 2}).strides, (std::vector<Size>{4, m * 4, 2, 1}));
  EXPECT_TRUE(is_row_major(v.view_of(x, "aten::reshape", {}, {-3, 4})));
  EXPECT_EQ(order_in_memory(swapped), (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_FALSE(order_in_memory(odd));
}

TEST(Places, AReshapeMayBeAViewDependingOnSizes) {
  Views v;
  const MemoryPlace x = v.rows({-1, -2, 4}), swapped = v.view_of(x, "aten::transpose", dims(0, 1), {-2, -1, 4});
  EXPECT_EQ(v.sharing(x, "aten::reshape", {-3, 4}).kind, Sharing::Kind::view);
  EXPECT_EQ(v.sharing(x, "aten::contiguous", {-1, -2, 4}).kind, Sharing::Kind::view);
  for (const char* target : {"aten::reshape", "aten::contiguous", "aten::ravel"}) {
    const Sharing sharing = v.sharing(swapped, target, {-2, -1, 4});
    if (target == std::string("aten::reshape")) {
      EXPECT_EQ(sharing.kind, Sharing::Kind::view);  // the axes do not change
      continue;
    }
    EXPECT_EQ(sharing.kind, Sharing::Kind::depends) << target;
    EXPECT_TRUE(is_view(sharing, 1, 5) && is_view(sharing, 5, 1) && is_view(sharing, 1, 1)) << target;
    EXPECT_FALSE(is_view(sharing, 2, 5) || is_view(sharing, 3, 3)) << target;
  }
  const MemoryPlace inner = v.view_of(x, "aten::transpose", dims(1, 2), {-1, 4, -2});
  const Sharing rows = v.sharing(inner, "aten::reshape", {-1, -3});
  EXPECT_EQ(rows.kind, Sharing::Kind::depends);
  const MemoryPlace fixed = v.view_of(v.rows({-1, 3, 4}), "aten::transpose", dims(1, 2), {-1, 4, 3});
  EXPECT_EQ(v.sharing(fixed, "aten::reshape", {-1, 12}).kind, Sharing::Kind::copy);
  EXPECT_EQ(v.sharing(fixed, "aten::reshape", {-1, 2, 2, 3}).kind, Sharing::Kind::view);
  EXPECT_EQ(sharing_of(v.program, v.node("aten::reshape", {}, {-1, 12}), std::nullopt).kind, Sharing::Kind::unknown);
}

TEST(Places, ContiguousPreservesTheArrangement) {
  Views v;
  const MemoryPlace axes = *with_separate_axes(v.program, v.tensor({-1, -2, 4}));
  EXPECT_EQ(*arrangement_of_view(v.program, v.node("aten::contiguous", {}, {-1, -2, 4}), 0, axes), axes);
  const MemoryPlace swapped = v.view_of(v.rows({-1, -2, 4}), "aten::transpose", dims(0, 1), {-2, -1, 4});
  EXPECT_EQ(*arrangement_of_view(v.program, v.node("aten::contiguous", {}, {-2, -1, 4}), 0, swapped), swapped);
  EXPECT_FALSE(arrangement_of_view(v.program, v.node("aten::ravel", {}, {-3}), 0, axes));
}

TEST(Places, DetectsDisjointParts) {
  Views v;
  const MemoryPlace x = v.rows({-1, -2, 3});
  const auto part = [&](const MemoryPlace& base, std::int64_t dim, std::int64_t index,
                        std::initializer_list<std::int64_t> size) {
    return v.view_of(base, "aten::select", {{"dim", {dim}}, {"index", {index}}}, size);
  };
  EXPECT_TRUE(are_disjoint(v.program, part(x, 2, 0, {-1, -2}), part(x, 2, 1, {-1, -2})));
  EXPECT_TRUE(are_disjoint(v.program, part(x, 0, 1, {-2, 3}), part(x, 0, 0, {-2, 3})));
  const MemoryPlace axes = *with_separate_axes(v.program, x.memory);
  EXPECT_TRUE(have_separate_ranges(v.program, part(axes, 1, 0, {-1, 3}), part(axes, 1, 2, {-1, 3})));
  EXPECT_FALSE(have_separate_ranges(v.program, part(axes, 1, 0, {-1, 3}), part(axes, 0, 2, {-2, 3})));
  EXPECT_FALSE(are_disjoint(v.program, part(x, 1, 0, {-1, 3}), part(x, 2, 2, {-1, -2})));
  EXPECT_FALSE(are_disjoint(v.program, part(x, 1, 0, {-1, 3}), part(x, 1, -1, {-1, 3})));  // equal if m is 1
  EXPECT_TRUE(has_distinct_elements(v.program, v.view_of(x, "aten::transpose", dims(0, 2), {3, -2, -1})));
  EXPECT_FALSE(has_distinct_elements(v.program, v.view_of(v.rows({-1, 1}), "aten::expand", {}, {-1, 4})));
  const auto windows = [&](std::int64_t size, std::int64_t step) {
    return v.view_of(v.rows({-1}), "aten::unfold",
                     {{"dimension", {std::int64_t{0}}}, {"size", {size}}, {"step", {step}}}, {-3, size});
  };
  EXPECT_TRUE(has_distinct_elements(v.program, windows(2, 2)));
  EXPECT_FALSE(has_distinct_elements(v.program, windows(3, 2)));
}

// Only one branch transposes x. The loop transposes its variable in each iteration.
TEST(Places, ResultsOfBranchesAndLoopsHaveALayoutIfItIsUnique) {
  Views v;
  const ValueId x = v.tensor({-1, -1}), swapped = v.tensor({-1, -1}), chosen = v.tensor({-1, -1});
  Node transpose = v.node("aten::t", {}, {});
  transpose.outputs = {swapped};
  Node branch;
  branch.target = "prim::If";
  branch.arguments = {{"condition", {true}}};
  branch.blocks.resize(2);
  branch.blocks[0].nodes = {transpose};
  branch.blocks[0].outputs = {value(swapped)};
  branch.blocks[1].outputs = {value(x)};
  branch.outputs = {chosen};
  v.program.body.nodes = {branch};
  for (const ValueId id : {x, swapped, chosen}) v.program.values[id].source = ValueSource::node;
  const auto keep_derived = [](ValueId, const std::optional<MemoryPlace>& derived) { return derived; };
  place_tensors(v.program, keep_derived);
  ASSERT_NE(stated_place(v.program, chosen), nullptr);
  EXPECT_FALSE(stated_place(v.program, chosen)->place);
  v.program.body.nodes[0].blocks[0].outputs = {value(x)};
  place_tensors(v.program, keep_derived);
  EXPECT_EQ(stated_place(v.program, chosen), nullptr);

  const ValueId variable = v.tensor({-1, -1}), loop_result = v.tensor({-1, -1});
  Node loop;
  loop.target = "prim::Loop";
  loop.arguments = {
      {"max_trip_count", {std::int64_t{3}}}, {"condition", {true}}, {"initial", {ArgumentList{value(x)}}}};
  loop.blocks.resize(1);
  loop.blocks[0].inputs = {v.tensor({}), variable};
  transpose.arguments[0].value = value(variable);
  loop.blocks[0].nodes = {transpose};
  loop.blocks[0].outputs = {{true}, value(swapped)};
  loop.outputs = {loop_result};
  v.program.body.nodes = {loop};
  place_tensors(v.program, keep_derived);
  for (const ValueId id : {variable, loop_result}) EXPECT_NE(stated_place(v.program, id), nullptr);
  v.program.body.nodes[0].blocks[0].outputs = {{true}, value(variable)};
  place_tensors(v.program, keep_derived);
  for (const ValueId id : {variable, loop_result}) EXPECT_EQ(stated_place(v.program, id), nullptr);
}

}  // namespace
}  // namespace whence
