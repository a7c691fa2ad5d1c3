// Recurrent layers: lstm, gru and plain RNNs, one ONNX operator for each layer; and their single-step cells.
//
// Layouts. PyTorch: input [T, N, in] (or batch first), hidden state [layers * directions, N, H], for each layer and
// direction w_ih [gates * H, in], w_hh [gates * H, H] and two biases. ONNX: X [T, N, in], W [directions, gates * H,
// in], R [directions, gates * H, H], B [directions, 2 * gates * H], Y [T, directions, N, H]. ONNX orders the gates
// differently, so the weights are repacked once, at export.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "annotator/convert/dropout.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/weights.h"

namespace whence::convert {

namespace {

struct Kind {
  const char* op_type;
  Ints gates;              // ONNX's gate i is PyTorch's gates[i]
  const char* gate_order;  // suffix for the names of the repacked weights
  const char* activation;  // of a plain RNN; "" for the operator's default
  bool cell_state;
};

const Kind kLstm{"LSTM", {0, 3, 1, 2}, "iofc", "", true};  // PyTorch i f c o
const Kind kGru{"GRU", {1, 0, 2}, "zrh", "", false};       // PyTorch r z h
const Kind kRnnTanh{"RNN", {0}, "packed", "Tanh", false};
const Kind kRnnRelu{"RNN", {0}, "packed", "Relu", false};

// ---- weights ----------------------------------------------------------------------------------------------------

TensorData reordered(const Kind& kind, const TensorData& weight) {
  const std::int64_t hidden = weight.shape[0] / static_cast<std::int64_t>(kind.gates.size());
  std::vector<TensorData> gates;
  for (const std::int64_t gate : kind.gates) gates.push_back(rows(weight, gate * hidden, (gate + 1) * hidden));
  return concatenated(gates);
}

const TensorData& constant_weight(Ctx& c, Val weight) {
  if (const TensorData* data = c.constant(weight)) return *data;
  c.refuse("a weight of a recurrent layer is computed from the inputs", "use weights that are parameters or constants");
}

// Packs the weights of one layer's directions as ONNX's W or R: [directions, gates * H, *].
Val pack(Ctx& c, const Kind& kind, const std::vector<Val>& directions) {
  return derived_constant(c, directions.front(), kind.gate_order, [&](const TensorData&) {
    std::vector<TensorData> parts;
    for (const Val weight : directions) {
      TensorData part = reordered(kind, constant_weight(c, weight));
      part.shape.insert(part.shape.begin(), 1);
      parts.push_back(std::move(part));
    }
    return concatenated(parts);
  });
}

// Packs the biases as ONNX's B: for each direction the input biases, then the hidden ones, [directions, 2 * gates * H].
Val pack_biases(Ctx& c, const Kind& kind, const std::vector<std::pair<Val, Val>>& directions) {
  return derived_constant(c, directions.front().first, kind.gate_order, [&](const TensorData&) {
    std::vector<TensorData> parts;
    for (const auto& [input, hidden] : directions) {
      TensorData part =
          concatenated({reordered(kind, constant_weight(c, input)), reordered(kind, constant_weight(c, hidden))});
      part.shape.insert(part.shape.begin(), 1);
      parts.push_back(std::move(part));
    }
    return concatenated(parts);
  });
}

// ---- one layer --------------------------------------------------------------------------------------------------

struct Layer {
  std::vector<Val> w_ih, w_hh;              // one for each direction
  std::vector<std::pair<Val, Val>> biases;  // empty if the layer has none
  Val hidden, cell;                         // initial states [directions, N, H]; absent for zeros
};

struct LayerResult {
  Val sequence;      // [T, directions, N, H]
  Val hidden, cell;  // final states [directions, N, H]
};

// Returns H. Throws before anything is packed, unless all weights are constants and their shapes match.
std::int64_t checked_hidden_size(Ctx& c, const Kind& kind, const Layer& layer) {
  const auto has_shape = [&](Val weight, const Ints& shape) {
    c.expect(constant_weight(c, weight).shape == shape, "the shapes of the recurrent weights must match");
  };
  const Ints first = constant_weight(c, layer.w_ih.front()).shape;
  const std::int64_t gates = static_cast<std::int64_t>(kind.gates.size());
  c.expect(first.size() == 2 && first[0] % gates == 0,
           "the rows of the recurrent weights must be a multiple of the number of gates");
  const std::int64_t hidden = first[0] / gates;
  for (const Val weight : layer.w_ih) has_shape(weight, first);
  for (const Val weight : layer.w_hh) has_shape(weight, {first[0], hidden});
  for (const auto& [input, recurrent] : layer.biases) {
    has_shape(input, {first[0]});
    has_shape(recurrent, {first[0]});
  }
  return hidden;
}

LayerResult emit_layer(Ctx& c, const Kind& kind, Val x, Val lengths, const Layer& layer) {
  const std::size_t directions = layer.w_ih.size();
  const std::int64_t hidden_size = checked_hidden_size(c, kind, layer);

  Attributes attributes;
  if (*kind.activation) attributes.push_back({"activations", std::vector<std::string>(directions, kind.activation)});
  if (directions == 2) attributes.push_back({"direction", "bidirectional"});
  attributes.push_back({"hidden_size", hidden_size});
  if (kind.op_type == std::string_view("GRU")) attributes.push_back({"linear_before_reset", 1});

  std::vector<Val> inputs{x, pack(c, kind, layer.w_ih), pack(c, kind, layer.w_hh)};
  inputs.push_back(layer.biases.empty() ? absent : pack_biases(c, kind, layer.biases));
  inputs.push_back(lengths);
  inputs.push_back(layer.hidden);
  if (kind.cell_state) inputs.push_back(layer.cell);
  while (!inputs.back()) inputs.pop_back();
  const auto results = c.emit_many(kind.op_type, std::move(inputs), std::move(attributes), kind.cell_state ? 3 : 2);
  return {results[0], results[1], kind.cell_state ? results[2] : absent};
}

// [T, directions, N, H] -> [T, N, directions * H], or [N, T, directions * H]
Val joined(Ctx& c, Val sequence, std::size_t directions, bool batch_first) {
  if (directions == 1) {
    const Val squeezed = c.squeeze(sequence, {1});
    return batch_first ? c.transpose(squeezed, {1, 0, 2}) : squeezed;
  }
  const Val last = c.transpose(sequence, batch_first ? Ints{2, 0, 1, 3} : Ints{0, 2, 1, 3});
  return c.emit("Reshape", {last, c.constant_ints({0, 0, -1})});
}

// ---- the stack of layers ------------------------------------------------------------------------------------------

// Returns true if a state is known to be all zeros, which is ONNX's default for a missing input.
bool is_zero(Ctx& c, Val state) {
  const auto zeros = [](const TensorData& data) {
    const auto bytes = data.bytes.in_memory().value();
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  };
  if (const TensorData* data = c.constant(state)) return zeros(*data);
  const graph::Graph& graph = c.graph();
  const std::int32_t producer = graph.values[state.id].producer;
  if (producer < 0) return false;
  const graph::GraphNode& node = graph.nodes[producer];
  if (node.op_type == "Expand") return is_zero(c, Val{node.inputs[0]});
  if (node.op_type != "ConstantOfShape") return false;
  const graph::Attribute* value = node.find("value");
  const auto* fill = value ? std::get_if<TensorData>(&value->value) : nullptr;
  return !value || (fill && zeros(*fill));
}

// Splits the initial state [layers * directions, N, H] into layers.
std::vector<Val> by_layer(Ctx& c, Val state, std::size_t layers, std::size_t directions) {
  if (is_zero(c, state)) return std::vector<Val>(layers, absent);
  if (layers == 1) return {state};
  const Val sizes = c.constant_ints(Ints(layers, static_cast<std::int64_t>(directions)));
  return c.emit_many("Split", {state, sizes}, {{"axis", 0}}, static_cast<int>(layers));
}

// Joins the final states of all layers, [layers * directions, N, H].
Val stacked(Ctx& c, const std::vector<Val>& states) {
  return states.size() == 1 ? states.front() : c.emit("Concat", states, {{"axis", 0}});
}

std::vector<Layer> read_layers(Ctx& c, std::size_t directions, bool fixed_steps) {
  const std::vector<Val> parameters = c.tensors("params");
  const bool biased = c.flag("has_biases");
  const std::size_t each = biased ? 4 : 2;
  const std::int64_t count = c.integer("num_layers");
  c.expect(count > 0 && count <= static_cast<std::int64_t>(parameters.size()),
           "params must have weights for each layer");
  std::vector<Layer> layers(static_cast<std::size_t>(count));
  if (parameters.size() != layers.size() * directions * each) {
    const std::string remedy = "project the output with a linear layer instead";
    c.refuse("an LSTM with projections (proj_size) is not supported",
             fixed_steps ? remedy : remedy + ", or export with a fixed time axis");
  }
  std::size_t at = 0;
  for (Layer& layer : layers) {
    for (std::size_t i = 0; i < directions; ++i, at += each) {
      layer.w_ih.push_back(parameters[at]);
      layer.w_hh.push_back(parameters[at + 1]);
      if (biased) layer.biases.emplace_back(parameters[at + 2], parameters[at + 3]);
    }
  }
  return layers;
}

// Without `lengths` [N], all sequences have full length.
void run(Ctx& c, const Kind& kind, Val x, Val lengths, bool batch_first) {
  const std::size_t directions = c.flag("bidirectional") ? 2 : 1;
  const double dropout = c.flag("train") ? c.number("dropout") : 0;
  c.expect(c.rank(x) == 3, "the input must have a time, a batch and a feature axis");
  std::vector<Layer> layers = read_layers(c, directions, c.static_dim(x, batch_first ? 1 : 0).has_value());

  std::vector<Val> states = kind.cell_state ? c.tensors("hx") : std::vector<Val>{c.tensor("hx")};
  c.expect(states.size() == (kind.cell_state ? 2 : 1), "hx must have one tensor for each kind of state");
  const std::vector<Val> hidden = by_layer(c, states[0], layers.size(), directions);
  const std::vector<Val> cell =
      kind.cell_state ? by_layer(c, states[1], layers.size(), directions) : std::vector<Val>(layers.size(), absent);

  if (batch_first) x = c.transpose(x, {1, 0, 2});
  std::vector<Val> final_hidden, final_cell;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].hidden = hidden[i];
    layers[i].cell = cell[i];
    if (i > 0) x = training_dropout(c, x, dropout);
    const LayerResult result = emit_layer(c, kind, x, lengths, layers[i]);
    const bool last = i + 1 == layers.size();
    x = joined(c, result.sequence, directions, last && batch_first);
    final_hidden.push_back(result.hidden);
    final_cell.push_back(result.cell);
  }
  std::vector<Val> results{x, stacked(c, final_hidden)};
  if (kind.cell_state) results.push_back(stacked(c, final_cell));
  c.yield(results);
}

void padded(Ctx& c, const Kind& kind) { run(c, kind, c.tensor("input"), absent, c.flag("batch_first")); }
void lstm(Ctx& c) { padded(c, kLstm); }
void gru(Ctx& c) { padded(c, kGru); }
void rnn_tanh(Ctx& c) { padded(c, kRnnTanh); }
void rnn_relu(Ctx& c) { padded(c, kRnnRelu); }

// Refuses packed sequences that lowering did not pad, because operators other than recurrent layers read their data.
void refuse_unpadded(Ctx& c) {
  c.refuse("this packed sequence is also read by an operator that is not a recurrent layer",
           "pad it with pad_packed_sequence (padding 0) before anything else reads it");
}

// Packed sequences that lowering has padded: `data` is [T, N, in] and `batch_sizes` holds the lengths [N]
// (annotator/lower/packed_sequences.cpp). Unpadded data have another rank, because they have no axis for the batch.
void packed(Ctx& c, const Kind& kind) {
  const Val x = c.tensor("data");
  if (c.rank(x) != 3) refuse_unpadded(c);
  run(c, kind, x, c.cast(c.tensor("batch_sizes"), DType::int32), false);
}
void packed_lstm(Ctx& c) { packed(c, kLstm); }
void packed_gru(Ctx& c) { packed(c, kGru); }
void packed_rnn_tanh(Ctx& c) { packed(c, kRnnTanh); }
void packed_rnn_relu(Ctx& c) { packed(c, kRnnRelu); }

// ---- cells: a sequence of one step. input [N, in], hidden [N, H] ----------------------------------------------------

void cell(Ctx& c, const Kind& kind) {
  const auto as_sequence = [&](Val v) { return c.unsqueeze(v, {0}); };
  const auto as_step = [&](Val v) { return c.squeeze(v, {0}); };
  Layer layer{{c.tensor("w_ih")}, {c.tensor("w_hh")}, {}, absent, absent};
  const Val b_ih = c.optional_tensor("b_ih"), b_hh = c.optional_tensor("b_hh");
  if (b_ih && b_hh) layer.biases.emplace_back(b_ih, b_hh);
  const std::vector<Val> states = kind.cell_state ? c.tensors("hx") : std::vector<Val>{c.tensor("hx")};
  c.expect(states.size() == (kind.cell_state ? 2 : 1), "hx must have one tensor for each kind of state");
  layer.hidden = as_sequence(states[0]);
  if (kind.cell_state) layer.cell = as_sequence(states[1]);
  const LayerResult result = emit_layer(c, kind, as_sequence(c.tensor("input")), absent, layer);
  if (!kind.cell_state) return c.yield(as_step(result.hidden));
  c.yield({as_step(result.hidden), as_step(result.cell)});
}

void lstm_cell(Ctx& c) { cell(c, kLstm); }
void gru_cell(Ctx& c) { cell(c, kGru); }
void rnn_tanh_cell(Ctx& c) { cell(c, kRnnTanh); }
void rnn_relu_cell(Ctx& c) { cell(c, kRnnRelu); }

const OpEntry kRecurrent[] = {
    {"aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
     "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
     lstm},
    {"aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
     "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     gru},
    {"aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
     "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     rnn_tanh},
    {"aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
     "bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
     rnn_relu},
    {"aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
     refuse_unpadded},
    {"aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, "
     "int total_length) -> (Tensor, Tensor)",
     refuse_unpadded},
    {"aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, "
     "int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)",
     packed_lstm},
    {"aten::gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
     "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)",
     packed_gru},
    {"aten::rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, "
     "int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)",
     packed_rnn_tanh},
    {"aten::rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, "
     "int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)",
     packed_rnn_relu},
    {"aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
     "(Tensor, Tensor)",
     lstm_cell},
    {"aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
     "Tensor",
     gru_cell},
    {"aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
     "Tensor",
     rnn_tanh_cell},
    {"aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
     "Tensor",
     rnn_relu_cell},
};

}  // namespace

OpFamily recurrent_ops() { return kRecurrent; }

}  // namespace whence::convert
