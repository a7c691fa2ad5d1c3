// Recurrent networks and their cells. Source: aten/src/ATen/native/RNN.cpp and torch/_decomp/decompositions.py
// (_rnn_helper) of PyTorch 2.13.
#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;

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

// tanh or relu of what a cell is given and what it remembers.
bool rnn_cell(Retrace& t, const FxCall& c) {
  if (t.facts(c.results.front()).rank() != 2) return false;
  const std::string_view activation = c.op == "aten.rnn_relu_cell" ? "relu" : "tanh";
  return t.yield(emit_recipe(t, c,
                             "linear $hx $w_hh $b_hh; linear $input $w_ih $b_ih; add.Tensor %1 %2; " +
                                 std::string(activation) + " %3")),
         true;
}

// ---- whole networks, step by step ---------------------------------------------------------------------------------

struct Pass {  // of one layer, in one direction
  std::string input, hidden;
  std::span<const std::string> weights;
  std::string activation;
  std::size_t steps;
  bool reverse;
};

// What the steps give, and what is remembered in the end.
std::pair<std::string, std::string> run_pass(Retrace& t, const Pass& pass) {
  const auto linear = [&](const std::string& of, std::size_t weight) {
    Arguments arguments = {of, pass.weights[weight]};
    if (pass.weights.size() > 2) arguments.push_back(pass.weights[weight + 2]);
    return t.emit("aten.linear.default", arguments);
  };
  std::string given = linear(pass.input, 0);
  if (pass.reverse) given = t.emit("aten.flip.default", {given, "[0]"});
  std::string remembered = t.emit("aten.unsqueeze.default", {pass.hidden, "0"}), outputs;
  for (const std::string& step : t.items(t.emit("aten.unbind.int", {given}), pass.steps)) {
    const std::string sum = t.emit("aten.add.Tensor", {linear(remembered, 1), step});
    remembered = t.emit(pass.activation, {sum});
    const std::string comma = outputs.empty() ? "" : ", ";
    outputs = pass.reverse ? remembered + comma + outputs : outputs + comma + remembered;
  }
  const std::string whole = t.emit("aten.cat.default", {"[" + outputs + "]"});
  return {whole, t.emit("aten.squeeze.dim", {remembered, "0"})};
}

bool rnn(Retrace& t, const FxCall& c) {
  constexpr std::int64_t most = 10000;  // steps, and layers of them, written out
  const std::int64_t layers = c.integer("num_layers", 1);
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes;
  const bool batch_first = c.text("batch_first") == "True";
  const std::size_t directions = c.text("bidirectional") == "True" ? 2 : 1,
                    each = c.text("has_biases") == "True" ? 4 : 2;
  const std::vector<std::string> weights = nodes_in(c.text("params"));
  if (c.overload != "input" || c.text("train") == "True" || sizes.size() != 3 || layers < 1 || layers > most)
    return false;
  const std::size_t passes = static_cast<std::size_t>(layers) * directions;
  const std::int64_t steps = sizes[batch_first ? 1 : 0];
  if (weights.size() != passes * each || steps < 1 || steps > most / static_cast<std::int64_t>(passes)) return false;
  const std::vector<std::string> hidden = t.items(t.emit("aten.unbind.int", {c.text("hx")}), passes);
  std::string input = first(c), remembered;
  if (batch_first) input = t.emit("aten.transpose.int", {input, "0", "1"});
  for (std::size_t pass = 0; pass < passes; pass += directions) {
    std::string outputs;
    for (std::size_t i = pass; i < pass + directions; ++i) {
      const auto [output, last] = run_pass(t, {input, hidden[i], std::span(weights).subspan(i * each, each),
                                               c.op == "aten.rnn_relu" ? "aten.relu.default" : "aten.tanh.default",
                                               static_cast<std::size_t>(steps), i > pass});
      outputs += (outputs.empty() ? "" : ", ") + output;
      remembered += (remembered.empty() ? "" : ", ") + last;
    }
    input = directions == 1 ? outputs : t.emit("aten.cat.default", {"[" + outputs + "]", "2"});
  }
  if (batch_first) input = t.emit("aten.transpose.int", {input, "0", "1"});
  return t.yield({input, t.emit("aten.stack.default", {"[" + remembered + "]"})}), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.gru_cell", gru_cell},
    {"aten.lstm_cell", lstm_cell},
    {"aten.rnn_relu", rnn},
    {"aten.rnn_relu_cell", rnn_cell},
    {"aten.rnn_tanh", rnn},
    {"aten.rnn_tanh_cell", rnn_cell},
});

}  // namespace

std::span<const RuleRow> recurrent_rules() { return table; }

}  // namespace whence
