// Normalisation, convolution, pooling and the cells of recurrent networks.
#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;

// ---- normalisation and convolution ----------------------------------------------------------------------------------

bool batch_norm(Retrace& t, const FxCall& c) {
  if (c.text("training") != "False") return false;
  t.sizes().compare("eq", t.element_count(self(c)), number(0));
  const std::string node = t.emit("aten._native_batch_norm_legit_no_training.default",
                                  {first(c), c.text("weight"), c.text("bias"), c.text("running_mean"),
                                   c.text("running_var"), c.text("momentum"), c.text("eps")});
  return t.yield(t.items(node, 3).front()), true;
}

// aten.convolution with every argument.
bool convolution(Retrace& t, const FxCall& c, bool transposed, const std::string& padding) {
  const auto rank = static_cast<std::size_t>(t.facts(self(c)).rank());
  if (rank < 3) return false;
  const auto one_for_each_axis = [&](const char* name, std::int64_t otherwise) {
    std::vector<std::int64_t> numbers = c.integers(name);
    if (numbers.size() == 1) numbers.resize(rank - 2, numbers.front());
    if (numbers.empty()) numbers.resize(rank - 2, otherwise);
    return list_text(numbers);
  };
  const Arguments arguments = {first(c),
                               c.text("weight"),
                               c.text("bias"),
                               one_for_each_axis("stride", 1),
                               padding.empty() ? one_for_each_axis("padding", 0) : padding,
                               one_for_each_axis("dilation", 1),
                               transposed ? "True" : "False",
                               one_for_each_axis("output_padding", 0),
                               c.text("groups", "1")};
  return t.yield(t.emit("aten.convolution.default", arguments)), true;
}

bool conv_transpose(Retrace& t, const FxCall& c) { return convolution(t, c, true, ""); }

// `padding` in words.
bool conv_in_words(Retrace& t, const FxCall& c) {
  if (c.overload != "padding") return false;
  const FxCall::Given* given = c.find("weight");
  const std::vector<std::int64_t> weight = t.facts(given == nullptr ? "" : given->value).sizes;
  if (weight.size() < 3) return false;
  std::vector<std::int64_t> dilation = c.integers("dilation"), padding;
  if (dilation.size() <= 1) dilation.resize(weight.size() - 2, dilation.empty() ? 1 : dilation.front());
  if (dilation.size() != weight.size() - 2) return false;
  for (std::size_t axis = 2; axis < weight.size(); ++axis) {
    const std::int64_t total = c.text("padding") == "same" ? dilation[axis - 2] * (weight[axis] - 1) : 0;
    if (total % 2 != 0) return false;  // is padded on one side first
    padding.push_back(total / 2);
  }
  return convolution(t, c, false, list_text(padding));
}

// ---- pooling ------------------------------------------------------------------------------------------------------

bool adaptive_avg_pool2d(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes, wanted = t.facts(c.results.front()).sizes;
  if (sizes.size() < 3 || wanted.size() != sizes.size()) return false;
  const std::size_t height = sizes.size() - 2, width = sizes.size() - 1;
  if (wanted[height] == 1 && wanted[width] == 1) {
    return t.yield(t.emit("aten.mean.dim", {first(c), "[-1, -2]", "True"})), true;
  }
  if (sizes[height] < 1 || sizes[width] < 1 || wanted[height] < 1 || wanted[width] < 1) return false;
  if (sizes[height] % wanted[height] != 0 || sizes[width] % wanted[width] != 0) return false;
  const std::string window = list_text({sizes[height] / wanted[height], sizes[width] / wanted[width]});
  return t.yield(t.emit("aten.avg_pool2d.default", {first(c), window, window})), true;
}

bool adaptive_avg_pool3d(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> wanted = t.facts(c.results.front()).sizes;
  if (wanted.size() < 3) return false;
  if (std::all_of(wanted.end() - 3, wanted.end(), [](auto size) { return size == 1; })) {
    return t.yield(t.emit("aten.mean.dim", {first(c), "[-1, -2, -3]", "True"})), true;
  }
  return t.yield(t.emit("aten._adaptive_avg_pool3d.default", {first(c), c.text("output_size")})), true;
}

// ---- cells of recurrent networks ----------------------------------------------------------------------------------

std::vector<std::string> gates(Retrace& t, const std::string& sum, std::size_t count, std::string_view state) {
  const std::string width = std::to_string(t.facts(state).sizes.back());
  return t.items(t.emit("aten.unsafe_split.Tensor", {sum, width, "1"}), count);
}

bool lstm_cell(Retrace& t, const FxCall& c) {
  const std::string states = c.text("hx");  // "[h, c]"
  const std::size_t comma = states.find(", ");
  if (comma == std::string::npos || t.facts(c.results.front()).rank() != 2) return false;
  const std::string hidden = states.substr(1, comma - 1), cell = states.substr(comma + 2, states.size() - comma - 3);
  const std::string recurrent = t.emit("aten.linear.default", {hidden, c.text("w_hh"), c.text("b_hh")});
  const std::string input = t.emit("aten.linear.default", {first(c), c.text("w_ih"), c.text("b_ih")});
  const auto parts = gates(t, t.emit("aten.add.Tensor", {recurrent, input}), 4, c.results.front());
  const auto sigmoid = [&](const std::string& of) { return t.emit("aten.sigmoid.default", {of}); };
  const std::string in = sigmoid(parts[0]), forget = sigmoid(parts[1]), next = t.emit("aten.tanh.default", {parts[2]}),
                    out = sigmoid(parts[3]);
  const std::string kept = t.emit("aten.mul.Tensor", {forget, cell});
  const std::string new_cell = t.emit("aten.add.Tensor", {kept, t.emit("aten.mul.Tensor", {in, next})});
  const std::string new_hidden = t.emit("aten.mul.Tensor", {out, t.emit("aten.tanh.default", {new_cell})});
  return t.yield({new_hidden, new_cell}), true;
}

bool gru_cell(Retrace& t, const FxCall& c) {
  if (t.facts(c.results.front()).rank() != 2) return false;
  const std::string_view state = c.results.front();
  const auto input = gates(t, t.emit("aten.linear.default", {first(c), c.text("w_ih"), c.text("b_ih")}), 3, state);
  const auto recurrent =
      gates(t, t.emit("aten.linear.default", {c.text("hx"), c.text("w_hh"), c.text("b_hh")}), 3, state);
  const auto add = [&](const std::string& a, const std::string& b) { return t.emit("aten.add.Tensor", {a, b}); };
  const std::string reset = t.emit("aten.sigmoid.default", {add(recurrent[0], input[0])});
  const std::string update = t.emit("aten.sigmoid.default", {add(recurrent[1], input[1])});
  const std::string gated = t.emit("aten.mul.Tensor", {recurrent[2], reset});
  const std::string next = t.emit("aten.tanh.default", {add(input[2], gated)});
  const std::string change = t.emit("aten.sub.Tensor", {c.text("hx"), next});
  return t.yield(add(t.emit("aten.mul.Tensor", {change, update}), next)), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten._adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten.adaptive_avg_pool3d", adaptive_avg_pool3d},
    {"aten.batch_norm", batch_norm},
    {"aten.conv1d", conv_in_words},
    {"aten.conv2d", conv_in_words},
    {"aten.conv3d", conv_in_words},
    {"aten.conv_transpose1d", conv_transpose},
    {"aten.conv_transpose2d", conv_transpose},
    {"aten.conv_transpose3d", conv_transpose},
    {"aten.gru_cell", gru_cell},
    {"aten.lstm_cell", lstm_cell},
});

}  // namespace

std::span<const RuleRow> network_rules() { return table; }

}  // namespace whence
