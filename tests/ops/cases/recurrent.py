"""Recurrent layers: several layers and directions, batch first, no bias, initial states; cells; packed sequences, which
are refused if other operators read their data."""

import torch
from torch import nn

from ops.case import case, f32, per_run

TOLERANCE = (1e-4, 1e-4)
FIXED_STEPS = "torch.export fixes the number of steps"


def recurrent(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


def packed(key, function, *inputs, **options):
    return recurrent(key, function, *inputs, not_in_archives="torch.export cannot pack sequences", **options)


class WithState(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, h):
        return self.layer(x, h)


class WithStates(WithState):
    def forward(self, x, h, c):
        return self.layer(x, (h, c))


class WithConstantState(WithState):
    def forward(self, x):
        return self.layer(x, torch.full((1, 2, 3), 0.5))


class Sequence(WithState):
    def forward(self, x):
        return self.layer(x)[0]


class Packed(WithState):
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=True)
        return self.layer(packed)[0].data


class Padded(WithState):
    """Packs, runs and pads; returns outputs, lengths and final states."""

    def __init__(self, layer, batch_first=False, enforce_sorted=True, padding_value=0.0):
        super().__init__(layer)
        self.batch_first, self.enforce_sorted, self.padding_value = batch_first, enforce_sorted, padding_value

    def forward(self, x, lengths):
        rnn = nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)
        output, state = self.layer(packed)
        return *rnn.pad_packed_sequence(output, self.batch_first, self.padding_value), state


def cell(kind, rows, state, arguments, biased=False):
    """Returns TorchScript for one step with constant weights, because tracing decomposes cells."""
    biases = f", torch.linspace(-1, 1, {rows}), torch.linspace(2, 0, {rows})" if biased else ""
    return (f"def forward(self, x, {arguments}):\n"
            f"  w_ih = torch.linspace(-0.9, 0.7, {4 * rows}).sin().reshape({rows}, 4)\n"
            f"  w_hh = torch.linspace(0.8, -0.6, {3 * rows}).cos().reshape({rows}, 3)\n"
            f"  return torch.{kind}_cell(x, {state}, w_ih, w_hh{biases})\n")


LENGTHS = per_run(torch.tensor([5, 3]), torch.tensor([4, 1]))
SHORT = per_run(torch.tensor([4, 2]), torch.tensor([3, 3]))  # shorter than the padded input

CASES = [
    recurrent("aten::lstm.input", nn.LSTM(4, 3), f32(5, 2, 4), dynamic="input:0=t,1=n", opsets=(13, 20, 22),
              not_in_archives=FIXED_STEPS),
    recurrent("aten::lstm.input", nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True), f32(2, 5, 4),
              dynamic="input:0=n,1=t", not_in_archives=FIXED_STEPS),
    recurrent("aten::lstm.input", nn.LSTM(4, 3, num_layers=2, bias=False), f32(5, 2, 4)),
    recurrent("aten::lstm.input", Sequence(nn.LSTM(4, 3, batch_first=True)), f32(2, 5, 4)),
    recurrent("aten::lstm.input", nn.LSTM(4, 3), f32(5, 4)),
    recurrent("aten::lstm.input", WithStates(nn.LSTM(4, 3, num_layers=2, bidirectional=True)), f32(5, 2, 4),
              f32(4, 2, 3), f32(4, 2, 3)),
    recurrent("aten::lstm.input", WithStates(nn.LSTM(4, 3)), f32(5, 2, 4), f32(1, 2, 3), f32(1, 2, 3)),
    recurrent("aten::lstm.input", nn.LSTM(4, 3, proj_size=2), f32(5, 2, 4), recorded_as="aten::lstm.input"),
    recurrent("aten::gru.input", nn.GRU(4, 3, num_layers=2, bidirectional=True), f32(5, 2, 4), dynamic="input:1=n"),
    recurrent("aten::gru.input", WithState(nn.GRU(4, 3, batch_first=True)), f32(2, 5, 4), f32(1, 2, 3)),
    recurrent("aten::gru.input", nn.GRU(4, 3, bias=False), f32(5, 2, 4)),
    recurrent("aten::rnn_tanh.input", nn.RNN(4, 3, bidirectional=True), f32(5, 2, 4)),
    recurrent("aten::gru.input", WithConstantState(nn.GRU(4, 3)), f32(5, 2, 4)),
    recurrent("aten::rnn_relu.input", WithState(nn.RNN(4, 3, nonlinearity="relu")), f32(5, 2, 4), f32(1, 2, 3)),
    packed("aten::_pack_padded_sequence", Packed(nn.LSTM(4, 3)), f32(5, 2, 4), LENGTHS,
           refused="not a recurrent layer"),
    packed("aten::_pad_packed_sequence", Padded(nn.LSTM(4, 3), padding_value=-1.0), f32(5, 2, 4), LENGTHS,
           refused="not a recurrent layer"),
    packed("aten::lstm.data", Padded(nn.LSTM(4, 3)), f32(5, 2, 4), LENGTHS, dynamic="x:0=t"),
    packed("aten::lstm.data", Padded(nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), batch_first=True),
           f32(2, 5, 4), LENGTHS, opsets=(13, 20)),
    packed("aten::lstm.data", Padded(nn.LSTM(4, 3), enforce_sorted=False), f32(5, 2, 4), torch.tensor([3, 5])),
    packed("aten::gru.data", Padded(nn.GRU(4, 3, 2)), f32(5, 2, 4), SHORT),
    packed("aten::rnn_tanh.data", Padded(nn.RNN(4, 3, bidirectional=True)), f32(5, 2, 4), LENGTHS),
    packed("aten::rnn_relu.data", Padded(nn.RNN(4, 3, nonlinearity="relu")), f32(5, 2, 4), SHORT),
    packed("aten::lstm.data", Packed(nn.LSTM(4, 3)), f32(5, 2, 4), LENGTHS, refused="not a recurrent layer"),
    packed("aten::gru.data", Packed(nn.GRU(4, 3)), f32(5, 2, 4), LENGTHS, refused="not a recurrent layer"),
    packed("aten::rnn_tanh.data", Packed(nn.RNN(4, 3)), f32(5, 2, 4), LENGTHS,
           refused="not a recurrent layer"),
    packed("aten::rnn_relu.data", Packed(nn.RNN(4, 3, nonlinearity="relu")), f32(5, 2, 4), LENGTHS,
           refused="not a recurrent layer"),
    recurrent("aten::lstm_cell", cell("lstm", 12, "(h, c)", "h, c", biased=True), f32(2, 4), f32(2, 3), f32(2, 3),
              dynamic="x:0=n h:0=n c:0=n"),
    recurrent("aten::gru_cell", cell("gru", 9, "h", "h", biased=True), f32(2, 4), f32(2, 3)),
    recurrent("aten::gru_cell", cell("gru", 9, "h", "h"), f32(2, 4), f32(2, 3)),
    recurrent("aten::rnn_tanh_cell", cell("rnn_tanh", 3, "h", "h"), f32(2, 4), f32(2, 3)),
    recurrent("aten::rnn_relu_cell", cell("rnn_relu", 3, "h", "h", biased=True), f32(2, 4), f32(2, 3)),
    recurrent("aten::gru_cell", "def forward(self, x, h, w, u):\n  return torch.gru_cell(x, h, w, u)", f32(2, 4),
              f32(2, 3), f32(9, 4), f32(9, 3)),  # weights that are inputs
]
