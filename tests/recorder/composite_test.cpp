// Composite operators, whose steps the recorder traces for the exporter. An operator with an untraceable step is
// refused, and never recorded as steps with a different result.
#include <algorithm>

#include <gtest/gtest.h>

#include "schema/recorder_api.h"

extern "C" const whence::RecorderApi* whence_recorder();

namespace whence {
namespace {

Type tensor(DType dtype, std::vector<std::int64_t> sizes) {
  std::vector<Dim> dims;
  for (const std::int64_t size : sizes) dims.push_back({size, false, none_id});
  return {ValueKind::tensor, dtype, std::move(dims)};
}

CompositeCall call_of(const std::string& target, const std::string& overload, std::vector<NamedArgument> arguments) {
  CompositeCall call;
  call.call.target = target;
  call.call.overload = overload;
  call.call.arguments = std::move(arguments);
  call.inputs = {tensor(DType::float32, {4, 6}), tensor(DType::int64, {6})};
  call.convertible = [](const std::string& key) { return key != "aten::ldexp.Tensor"; };
  return call;
}

TEST(Composite, TracesTheStepsOfAnOperator) {
  const CompositeCall call = call_of("aten::rot90", "",
                                     {{"self", {ValueRef{ValueId(0)}}},
                                      {"k", {std::int64_t{2}}},
                                      {"dims", {ArgumentList{{std::int64_t{0}}, {std::int64_t{1}}}}}});
  Program steps;
  Diagnostics diagnostics;
  ASSERT_TRUE(whence_recorder()->trace_composite(call, steps, diagnostics));
  EXPECT_TRUE(diagnostics.empty());
  ASSERT_EQ(steps.body.nodes.size(), 1u);
  EXPECT_EQ(steps.body.nodes[0].target, "aten::flip");
}

// ldexp multiplies by a power that a kernel writes into an empty tensor, which a trace cannot record. Before PyTorch
// 2.10, it calls pow, which a trace records.
TEST(Composite, RefusesUntraceableSteps) {
  const CompositeCall call =
      call_of("aten::ldexp", "Tensor", {{"self", {ValueRef{ValueId(0)}}}, {"other", {ValueRef{ValueId(1)}}}});
  Program steps;
  Diagnostics diagnostics;
  if (whence_recorder()->trace_composite(call, steps, diagnostics)) {
    EXPECT_TRUE(std::ranges::any_of(steps.body.nodes, [](const Node& node) { return node.target == "aten::pow"; }));
    return;
  }
  ASSERT_FALSE(diagnostics.empty());
  EXPECT_EQ(diagnostics.front().code, Code::converter_refused);
}

}  // namespace
}  // namespace whence
