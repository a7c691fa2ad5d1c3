"""What PyTorch's ONNX exporter would have called each node of an archive: fx names, texts and the graph signature.

PyTorch decomposes a program before it converts it, which names every node anew. whence converts the archive's own
operators, and works out those names (annotator/read/exported/retrace). Here they are compared with the program that
PyTorch's exporter has decomposed.
"""

import warnings

import onnx
import pytest
import torch
import torch.nn.functional as functional
from torch.onnx._internal.exporter import _core, _registration

import command
from models import zoo

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
ORIGINAL = "pkg.torch.onnx.original_node_name"
FX_NODE = "pkg.torch.onnx.fx_node"
BATCH = torch.export.Dim("batch", min=2, max=64)
LENGTH = torch.export.Dim("length", min=4, max=64)


class Views(torch.nn.Module):
    """Reshapes of what lies in order and of what does not, splits, casts that change nothing, dropout."""

    def forward(self, x):
        first, second = x.flatten(1).chunk(2, -1)
        turned = x.transpose(1, 2).reshape(x.shape[0], -1)
        same = turned.to(torch.float32).contiguous()
        moved = x.movedim(1, 2).unflatten(1, (2, 4)).mT
        dropped = torch.nn.functional.dropout(same, 0.5, training=False)
        return first * 2 + second, dropped.view_as(x), moved.double(), x.expand_as(x), x.swapaxes(1, 2).contiguous()


class Writes(torch.nn.Module):
    """Writes to views of a tensor, to views of views, and reads of other views in between."""

    def forward(self, x):
        x = x.clone()
        x[:, 0] = 1.0
        x[:, 1].add_(x[:, 0])
        row = x[0]
        row[1:3].mul_(3)
        x.transpose(0, 1)[2].fill_(7)
        return x.relu_() + 1, row.sum()


class Cache(torch.nn.Module):
    """Buffers that are written to, and constants among the buffers of inner modules."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.BatchNorm1d(8)
        self.register_buffer("kept", torch.zeros(1, 4, 8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.shift = torch.arange(8.0)

    def forward(self, x, place):
        self.steps.add_(1)
        self.kept.index_copy_(1, place, x)
        return self.inner((self.kept + self.shift).transpose(1, 2)) * torch.tensor([0.5])


class Assigns(torch.nn.Module):
    """Copies to buffers, which PyTorch takes out where they are what is left in the end, and to inputs, which stay."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("row", torch.zeros(4))
        self.register_buffer("table", torch.zeros(3, 4))

    def forward(self, x, state):
        self.count += 1
        self.row = self.row * 0.9 + x.mean(0)
        self.table.copy_(x)
        self.table.copy_(self.table * 2)
        state[:, 0] = x[:, 1]
        state.mul_(2)
        return x + self.count, self.table + 1, state, self.row * 3


class Numbers(torch.nn.Module):
    """Numbers and dtypes that PyTorch's exporter writes out: scalar_tensor and convert_element_type."""

    def forward(self, x, y):
        whole = (y > 2).cumsum(0) + y
        within = ((x + 1) * 2 >= 0) & (x < 0.5)
        return within, whole / 3, torch.where(x > 0, 0, x), x.clamp(0, 2) + y, 1 - x, x.half() + 1


class Cells(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = torch.nn.LSTMCell(4, 8), torch.nn.GRUCell(8, 8)

    def forward(self, x):
        hidden, cell = self.lstm(x)
        return self.gru(hidden, cell)


class Signals(torch.nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1, norm="ortho") * 2
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        return torch.fft.irfft(spectrum, n=x.shape[1], dim=1), mixed, x.diff(n=2, dim=1), torch.fft.fftshift(x, 1)


class Choices(torch.nn.Module):
    def forward(self, x):
        pooled = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        halves = torch.nn.functional.adaptive_avg_pool2d(x, (x.shape[2] // 2, 2))
        values, places = pooled.topk(2)
        hot = torch.nn.functional.one_hot(places, 3)
        return halves, values.argsort(), hot, torch.nn.functional.hardshrink(x), torch.max(x, x.square()), x.std(1)


class Products(torch.nn.Module):
    """Grids, identities, outer products, statistics of two results, quarter turns."""

    def forward(self, x, y, places):
        similar = torch.nn.functional.cosine_similarity(x, x + 1, -1)
        grids = torch.meshgrid(x[0], y[0], indexing="xy")
        means = torch.var_mean(x, [0, 1]) + torch.std_mean(y, 1)
        taken = torch.take_along_dim(x, places, -1) + torch.take_along_dim(x, places[:, :1], 1)
        return (similar * 2, grids[0] + grids[1], sum(mean.sum() for mean in means), taken, torch.eye(3, 4) * x,
                torch.kron(x, y), torch.outer(x[0], y[0]) + 1, torch.rot90(x, -1), x.narrow(1, 1, 2) * x.var(),
                x.std(1, keepdim=True), x.t().ravel() + x.ravel())


class Contractions(torch.nn.Module):
    """Of tensors as they lie, and of those that have to be copied into order."""

    def forward(self, x, y, z):
        both = torch.tensordot(y, z, [[2, 1], [1, 2]])
        return torch.tensordot(x, y[0].T, 1) + 1, both * 2, torch.tensordot(x.T, x, 0)


class FromData(torch.nn.Module):
    """Numbers of the model's own, with a fraction and without."""

    def forward(self, x):
        return torch.where(x > x.sum().item(), x, x.mean().item()) * 2, x * x.long().sum().item() + 1


class Loop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        left = torch.cond(x.sum() > 0, lambda x: self.layer(x).flatten(), lambda x: x.reshape(-1) * 2, (x,))
        with torch.no_grad():
            right = self.layer(x).relu_()
        return left, right


class Sizes(torch.nn.Module):
    """Reshapes of tensors that lie in any order, whose sizes PyTorch computes with while it traces."""

    def forward(self, x):
        heads = x.unflatten(2, (2, -1)).transpose(1, 2)
        joined = heads.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)
        repeated = heads[:, :, None].expand(-1, -1, 3, -1, -1).reshape(x.shape[0], 6, x.shape[1], -1)
        columns = x.permute(2, 0, 1).reshape(2, 4, -1) * 2
        rows = x.transpose(0, 1).reshape(-1, 8) + x.transpose(0, 1).flatten(0, 1)
        again = x.transpose(1, 2).contiguous().view(x.shape[0], -1) * rows.sum()
        return joined * 2, repeated * 2 + 1, columns, x.flatten(0, 1) == x.reshape(-1, 8), again


class Heads(torch.nn.Module):
    """What language models do to a batch of any length: sizes that are new symbols to PyTorch."""

    def forward(self, x):
        batch, length = x.shape[:2]
        heads = x.view(batch, -1, 2, 4).transpose(1, 2) * 2
        places = (x[..., 0] > 0).cumsum(1) * x.new_ones(length, length).tril().triu(-1)[0]
        longer = torch.cat([x, x[:, :1]], 1).roll((1, 2), (1, 0)) * 2
        each = heads.reshape(batch * 2, -1, 4).bmm(heads.reshape(batch * 2, length, -1).mT) * 2
        steps = x.diff(n=2, dim=1), x.diff(dim=1)
        return heads, each, places.view(-1, length) + 1, longer, x[0].repeat(batch, 1) - 1, *steps


class Tables(torch.nn.Module):
    """Operators that PyTorch makes of several, between which tensors have other sizes than the result."""

    def forward(self, x):
        x = torch.nn.functional.rms_norm(x, (8,)) * x.shape[1] ** 0.5
        rows, columns = torch.meshgrid(x[:, 0, 0], x[0, :, 0], indexing="ij")
        x = x.clone()
        x[1].zero_()
        hot = torch.nn.functional.one_hot(x.argmax(2), 9)
        return hot * 2, torch.eye(x.shape[1], x.shape[0]) + rows.T * columns.T, x


class Shifted(torch.nn.Module):
    """Writes to views of a tensor of any sizes, which make other views anew."""

    def forward(self, x):
        x = x * 2
        x[:, 1:].mul_(3)
        x[:, :, 0].fill_(1.0)
        return x[:, :-1] * 2


class Steps(torch.nn.Module):
    """Differences and writes in place, before which PyTorch compares sizes."""

    def forward(self, x):
        steps = x.diff(n=2, dim=1), x.diff(dim=-1, prepend=x[..., :1]), x.diff(dim=1, append=x[:, :2])
        spread = (x * 2).add_(x[:, :1]).mul_(3)
        return *steps, spread.masked_fill_(x > 0, 0.0) * 2


class SeenOtherwise(torch.nn.Module):
    """Operators that give a tensor another shape in place: what is written afterwards is written to the same memory."""

    def forward(self, x):
        turned, written, viewed, exchanged = x.clone(), x.clone(), x.clone(), x.clone()
        turned.transpose_(0, 1)
        written.transpose_(0, 1)
        written.add_(1)
        row = viewed[0]
        viewed.t_()
        row.mul_(2)
        exchanged.swapaxes_(0, 1)
        return turned[0], written[0] * 2, viewed + row.sum(), exchanged[0], x.clone().unsqueeze_(0).squeeze_(0) + 1


class Losses(torch.nn.Module):
    """Of each element, then their mean or sum."""

    def forward(self, x, y, labels):
        shares = y.sigmoid()
        of_two = functional.binary_cross_entropy(x.sigmoid(), shares), functional.binary_cross_entropy_with_logits(
            x, shares, weight=shares, pos_weight=shares[0], reduction="sum")
        distances = [loss(x, y, reduction=reduction) for reduction in ("mean", "sum", "none")
                     for loss in (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss,
                                  functional.huber_loss, functional.soft_margin_loss, functional.poisson_nll_loss)]
        ranked = functional.margin_ranking_loss(x, y, shares), functional.hinge_embedding_loss(x, y)
        alike = functional.cosine_embedding_loss(x, y, shares[:, 0]), functional.triplet_margin_loss(x, y, shares)
        spread = functional.kl_div(x, shares, reduction="batchmean"), functional.kl_div(x, y, log_target=True)
        classes = functional.nll_loss(x, labels), functional.cross_entropy(x, labels, label_smoothing=0.1)
        return *of_two, *distances, *ranked, *alike, *spread, *classes, x - 1, x * 2 + y, x.exp()


class Pools(torch.nn.Module):
    """Windows of several sizes, whose elements are looked up; of one size; of the whole."""

    def forward(self, x):
        lines = x.flatten(2)
        averages = [functional.adaptive_avg_pool2d(x, size) for size in (3, 5, (1, 3), (4, 2), 1, 9)]
        of_lines = [functional.adaptive_avg_pool1d(lines, size) for size in (1, 7, 16)]
        largest = functional.adaptive_max_pool2d(x, (4, 2)), *functional.adaptive_max_pool1d(lines, 8, True)
        larger = [functional.interpolate(x, size=(7, 9), mode="nearest-exact"),
                  functional.interpolate(x, scale_factor=2, mode="nearest-exact"),
                  functional.interpolate(lines, scale_factor=2, mode="linear"),
                  functional.interpolate(lines, size=5, mode="linear", align_corners=True)]
        return *averages, *of_lines, *largest, *larger, x[0].unsqueeze(0) * 2 + 1


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.RNN(4, 5, 2, batch_first=True, bidirectional=True)
        self.relu = torch.nn.RNN(10, 3, nonlinearity="relu", bias=False)
        self.cell = torch.nn.RNNCell(3, 4)

    def forward(self, x):
        whole, last = self.rnn(x)
        whole, steps = self.relu(whole)
        return self.cell(whole[0]), last.sum(0) + 1, steps * 2, x.tanh()


class Joined(torch.nn.Module):
    """Tensors that are put together and taken apart, and seen with more axes."""

    def forward(self, x, y):
        row = x[0]
        stacked = torch.hstack([x, y]), torch.vstack([row, row]), torch.dstack([x, y]), torch.column_stack([row, row])
        spread = torch.broadcast_tensors(x, row, y[:, :1])
        seen = torch.atleast_3d(x), torch.atleast_2d(row), torch.atleast_1d(x.sum()), torch.broadcast_to(row, (2, 4))
        split = *x.hsplit(2), *x.tensor_split((1, 2), 0), *torch.chunk(y, 2, 1)
        turned = x.fliplr(), torch.rot90(y, 2), torch.diag(row), torch.diag_embed(x), x.unsqueeze(0).squeeze((0,))
        inner = torch.inner(x, y), torch.inner(row, row), torch.chain_matmul(x, y.t(), x), row.vdot(y[0])
        return *stacked, *spread, *seen, *split, *turned, *inner, x.unsqueeze(1).view(3, 4) * 2


class Statistics(torch.nn.Module):
    """What is counted, accumulated and looked up in ranges."""

    def forward(self, x, limits):
        quantiles = (x.quantile(0.5, 1), x.quantile(0.25), torch.quantile(x, limits[:2].sigmoid(), 1),
                     x.nanquantile(0.5, 1))
        counts = x.count_nonzero(1), x.nansum(1), x.nanmean(), x.any(1), x.all()
        places = torch.bucketize(x, limits), torch.bucketize(x, limits, right=True), torch.isin(x, limits)
        areas = torch.trapezoid(x), torch.trapezoid(x, x + 1), torch.cumulative_trapezoid(x), x.cumprod(0)
        functions = torch.hypot(x, x), torch.fmax(x, x), x.nan_to_num(), x.lgamma(), x.clip(0, 1), x.copysign(-x)
        lengths = functional.pairwise_distance(x, x), torch.dist(x, x), torch.linalg.norm(x, dim=-1)
        filled = x.index_fill(1, x[0].argsort(stable=True)[:2], 1.0)
        spread = torch.var_mean(x, 1, keepdim=True)
        return *quantiles, *counts, *places, *areas, *functions, *lengths, filled, *spread, (x - 1) * 2


class Halves(torch.nn.Module):
    """Computed in single precision, and cast back."""

    def forward(self, x):
        largest = (x - x.amax(-1, keepdim=True)).exp()
        whole = x.sum(-1) + x.cumsum(-1)[:, 0], x.sum(-1, dtype=torch.float32) * 2, x.prod(-1) > 1
        losses = functional.mse_loss(x, x * 2), functional.l1_loss(x, x * 2)
        spread = x.std(1), x.var(1, keepdim=True), x.isnan(), functional.rms_norm(x, (4,))
        return largest / largest.sum(-1, keepdim=True), *whole, *losses, *spread


class Detached(torch.nn.Module):
    """Rounded, while its gradient passes."""

    def forward(self, x):
        return x + (x.round() - x).detach(), x.detach() * 2, torch.empty_like(x).zero_() + x


class Rotary(torch.nn.Module):
    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1]).float(), torch.ones(4))
        return x[..., :4] * angles.cos(), x.view(x.shape[0], x.shape[1], 2, 4) * 2


class Unread(torch.nn.Module):
    """Operators whose last node nobody reads."""

    def __init__(self):
        super().__init__()
        self.cell, self.lstm = torch.nn.LSTMCell(4, 5), torch.nn.LSTM(4, 5)

    def forward(self, x):
        return self.cell(x)[0], torch.meshgrid(x[0], x[:, 1])[0], self.lstm(x[None])[1][0], x.max(1)[1], x.sort(1)[0]


MODELS = {
    "rotary": (Rotary, (torch.randn(4, 6, 8),)),
    "unread": (Unread, (torch.randn(3, 4),)),
    "detached": (Detached, (torch.randn(3, 4),)),
    "halves": (Halves, (torch.randn(3, 4).half(),)),
    "joined": (Joined, (torch.randn(3, 4), torch.randn(3, 4))),
    "losses": (Losses, (torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 3, 1]))),
    "pools": (Pools, (torch.randn(2, 3, 8, 4),)),
    "recurrent": (Recurrent, (torch.randn(2, 3, 4),)),
    "statistics": (Statistics, (torch.randn(3, 4), torch.arange(5.0))),
    "convolutions": (lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 3, 4, padding="same"), torch.nn.ConvTranspose2d(3, 4, 3)), (torch.randn(3, 6, 6),)),
    "weight norm": (lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 5)), (torch.randn(3, 4),)),
    "seen otherwise": (SeenOtherwise, (torch.randn(3, 4),)),
    "views": (Views, (torch.randn(3, 6, 8),)),
    "writes": (Writes, (torch.randn(3, 4),)),
    "assigns": (Assigns, (torch.randn(3, 4), torch.randn(3, 4))),
    "cache": (Cache, (torch.randn(1, 2, 8), torch.tensor([1, 3]))),
    "numbers": (Numbers, (torch.randn(3, 4), torch.arange(4))),
    "cells": (Cells, (torch.randn(3, 4),)),
    "signals": (Signals, (torch.randn(2, 8, 6),)),
    "choices": (Choices, (torch.randn(2, 3, 8, 4),)),
    "products": (Products, (torch.randn(3, 4), torch.randn(4, 5), torch.zeros(3, 2, dtype=torch.int64))),
    "contractions": (Contractions, (torch.randn(3, 4), torch.randn(2, 3, 4), torch.randn(5, 4, 3))),
    "numbers from data": (FromData, (torch.randn(3, 4),)),
    "shuffle": (lambda: torch.nn.ChannelShuffle(2), (torch.randn(1, 4, 2, 2),)),
    "loop": (Loop, (torch.randn(3, 4),)),
    "sizes": (Sizes, (torch.randn(4, 6, 8),)),
    "steps": (Steps, (torch.randn(4, 6, 8),)),
    "heads": (Heads, (torch.randn(4, 6, 8),)),
    "tables": (Tables, (torch.randn(4, 6, 8),)),
    "shifted": (Shifted, (torch.randn(4, 6, 8),)),
}


def said_by_pytorch(program) -> tuple[set[str], str]:
    """(texts of all nodes, the signature) of the program that PyTorch's exporter converts."""
    registry = _registration.ONNXRegistry.from_torchlib()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = _core._prepare_exported_program_for_export(program, registry=registry)
    graphs = [module.graph for module in prepared.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    texts = {node.format_node() for graph in graphs for node in graph.nodes if node.op == "call_function"}
    return texts, str(prepared.graph_signature)


def nodes_of(graph: onnx.GraphProto):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


def metadata(holder) -> dict:
    return {entry.key: entry.value for entry in holder.metadata_props}


def differences(program, folder) -> list:
    torch.export.save(program, folder / "m.pt2")
    command.run("export", folder / "m.pt2", "-o", folder / "m.onnx", "--annotate")
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    texts, signature = said_by_pytorch(torch.export.load(folder / "m.pt2"))
    # An input that is returned as it is has an Identity of the file's own, which no fx node stands for.
    said = [metadata(node)[FX_NODE] for node in nodes_of(model.graph) if metadata(node)["pkg.whence.op"] != "shared:"]
    assert said
    results = [line.split(":")[0] for line in signature.split("# outputs")[1].splitlines() if ": USER_OUTPUT" in line]
    names = [metadata(value).get(ORIGINAL, value.name) for value in model.graph.output]
    wrong = [text for text in said if text not in texts] + [name for name in names if name not in results]
    return wrong + [signature] * (metadata(model.graph)[SIGNATURE] != signature)


@pytest.mark.parametrize("decomposed", [False, True], ids=["plain", "decomposed"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, decomposed, tmp_path):
    model, inputs = MODELS[name]
    program = torch.export.export(model().eval(), inputs)
    assert differences(program.run_decompositions() if decomposed else program, tmp_path) == []


@pytest.mark.parametrize("axes", [(0,), (0, 1)], ids=["batch", "batch and length"])
@pytest.mark.parametrize("name", ["sizes", "steps", "heads", "tables", "shifted", "rotary"])
def test_any_sizes(name, axes, tmp_path):
    model, inputs = MODELS[name]
    dynamic = {axis: (BATCH, LENGTH)[axis] for axis in axes}
    assert differences(torch.export.export(model().eval(), inputs, dynamic_shapes=(dynamic,)), tmp_path) == []


@pytest.mark.parametrize("name, axes", [("gpt2", 1), ("gpt2", 2), ("vit", 1), ("mobilenet_v2", 1), ("shared_block", 1)])
def test_public_models_of_any_batch(name, axes, tmp_path):
    entry = zoo.MODELS[name]
    inputs = dict(entry.inputs(entry.second))
    sizes = {argument: dict(enumerate((BATCH, LENGTH)[:axes])) for argument in inputs}
    assert differences(torch.export.export(entry.model(), (), inputs, dynamic_shapes=sizes), tmp_path) == []


def test_a_batch_of_any_size_counts_what_pytorch_computes_of_it(tmp_path):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = x * 0.5 + layer(x.transpose(0, 1)).transpose(0, 1) - x[:, :1]
            return x.reshape(-1, 8) - 1, x[:, 0]

    program = torch.export.export(Block(), (torch.randn(4, 6, 8),), dynamic_shapes=({0: BATCH},))
    assert differences(program, tmp_path) == []
