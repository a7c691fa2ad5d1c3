"""Operators of the newest opsets, which the export fuses from several nodes, at each opset and with each choice of
--operators. Each file is valid and equals PyTorch at the recorded and at other sizes, in ONNX Runtime or, if it lacks
the operator, in onnx's reference evaluator. Each fused node belongs to the module that computes it."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable

import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.parser
import onnx.reference
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import command
from function_module import FunctionModule
from operator_forms import recent_operators
from results import assert_same_results

OPSETS = (24, 28)  # by default with and without Swish; fused operators are also tested at their first opset


class Stack(nn.Sequential):
    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class Norm(nn.Module):
    """The norm of transformers, computed in float32 for every input dtype."""

    def __init__(self, width, after=lambda weight: weight):
        super().__init__()
        self.weight, self.after = nn.Parameter(torch.rand(width) + 0.5), after

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.after(self.weight) * wide.to(x.dtype)


class Angles(nn.Module):
    def __init__(self, width, scaling=1.0, pairs=False):
        super().__init__()
        self.pairs = pairs
        self.register_buffer("frequencies", 100.0 ** -(torch.arange(0, width, 2) / width), persistent=False)
        self.scaling = scaling

    def forward(self, positions):
        angles = positions[..., None].float() * self.frequencies
        angles = angles.repeat_interleave(2, dim=-1) if self.pairs else torch.cat((angles, angles), dim=-1)
        return angles.cos() * self.scaling, angles.sin() * self.scaling


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_half_by_chunks(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotate_pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


class Rotary(nn.Module):
    """Splits x [batch, length, 24] into 3 heads and rotates the first `width` elements of each."""

    def __init__(self, width=8, rotate=rotate_half, scaling=1.0, positions=None):
        super().__init__()
        self.angles = Angles(width, scaling, pairs=rotate is rotate_pairs)
        self.width, self.rotate, self.positions = width, rotate, positions

    def forward(self, x):
        heads = x.unflatten(-1, (3, 8)).transpose(1, 2)
        positions = torch.arange(x.shape[1])[None] if self.positions is None else self.positions(x)
        cos, sin = (table.unsqueeze(1) for table in self.angles(positions))
        if self.width == 8:
            return heads * cos + self.rotate(heads) * sin
        front, rest = heads[..., :self.width], heads[..., self.width:]
        return torch.cat((front * cos + self.rotate(front) * sin, rest), dim=-1)


class Table(nn.Module):
    """Stores the cosines and sines of every position as buffers."""

    def __init__(self):
        super().__init__()
        cos, sin = Angles(8)(torch.arange(64))
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x):
        heads = x.unflatten(-1, (3, 8)).transpose(1, 2)
        length = x.shape[1]
        return heads * self.cos[:length] + rotate_half(heads) * self.sin[:length]


class UnequalHalves(Table):
    def __init__(self):
        super().__init__()
        self.cos[5, 7] += 0.25


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.act = nn.Linear(24, 16), nn.Linear(24, 16), nn.SiLU()

    def forward(self, x):
        return self.act(self.gate(x)) * self.up(x)


class Cached(nn.Module):
    """One step of attention with cached keys and values; `groups` key heads for 4 query heads."""

    def __init__(self, groups=4, causal=False):
        super().__init__()
        self.q, self.kv, self.groups, self.causal = nn.Linear(24, 32), nn.Linear(24, 2 * groups * 8), groups, causal

    def forward(self, x, past_key, past_value):
        q = self.q(x).unflatten(-1, (4, 8)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, self.groups, 8)).permute(2, 0, 3, 1, 4)
        k, v = torch.cat((past_key, k), dim=2), torch.cat((past_value, v), dim=2)
        return F.scaled_dot_product_attention(q, *map(self.for_all, (k, v)), is_causal=self.causal), k, v

    def for_all(self, x):
        batch, groups, length, width = x.shape
        if groups == 4:
            return x
        return x[:, :, None].expand(batch, groups, 4 // groups, length, width).reshape(batch, 4, length, width)


def float_inputs(batch, length):
    return (torch.randn(batch, length, 24, generator=torch.Generator().manual_seed(batch + length)),)


def half_inputs(batch, length):
    return tuple(tensor.half() for tensor in float_inputs(batch, length))


def double_inputs(batch, length):
    return tuple(tensor.double() for tensor in float_inputs(batch, length))


def with_past(groups, past):
    def make(batch, length):
        draw = torch.Generator().manual_seed(batch)
        return (*float_inputs(batch, length), *(torch.randn(batch, groups, past(length), 8, generator=draw) for _ in "kv"))
    return make


class Attend(nn.Module):
    """Attention of inputs that are heads of queries, keys and values, possibly with different batch sizes."""

    def __init__(self, mask=None, **options):
        super().__init__()
        self.mask, self.options = mask, options

    def forward(self, q, k, v):
        mask = None if self.mask is None else self.mask(q)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)


def heads(queries, keys, values, batches=(1, 1, 1)):
    """Returns a function that makes inputs of `Attend`; an input with 0 in `batches` has batch size 1."""
    def make(batch, length):
        draw = torch.Generator().manual_seed(batch + length)
        return tuple(torch.randn(batch if batched else 1, count, length, 8, generator=draw)
                     for count, batched in zip((queries, keys, values), batches, strict=True))
    return make


def lowest_row(q):
    """Masks every key except the first with the lowest finite number, and all keys if a query's first element is
    negative. PyTorch returns the mean of all values for such a row, but zeros if the mask is -inf."""
    mask = torch.full((q.shape[0], 1, q.shape[2], q.shape[2]), torch.finfo(q.dtype).min)
    return torch.where((q[:, :1, :, :1] >= 0) & (torch.arange(q.shape[2]) == 0), 0.0, mask)


class JoinedAtOppositeEnds(nn.Module):
    """Appends the keys to the past but prepends the values, so that the parts have different lengths."""

    def forward(self, q, k, v, past_key, past_value):
        k, v = torch.cat((past_key, k), dim=2), torch.cat((v, past_value), dim=2)
        return F.scaled_dot_product_attention(q, k, v), k, v


def with_other_past(batch, length):
    draw = torch.Generator().manual_seed(batch + length)
    return (*heads(4, 4, 4)(batch, length), *(torch.randn(batch, 4, length + 3, 8, generator=draw) for _ in "kv"))


class OnePosition(nn.Module):
    """Two query heads share a head of keys and values that repeats its first position."""

    def forward(self, q, k, v):
        def shared(x):
            return x[:, :, :1][:, :, None].expand(-1, -1, 2, 5, -1).flatten(1, 2)

        return nn.functional.scaled_dot_product_attention(q, shared(k), shared(v))


class CacheWrite(nn.Module):
    """Writes to a cache of fixed length from position `start`."""

    def __init__(self, positions):
        super().__init__()
        self.positions = positions

    def forward(self, cache, new, start):
        return cache.index_copy(2, self.positions(new.shape[2], start), new)


class RepeatedWrite(nn.Module):
    def forward(self, cache, position, new):
        return cache.scatter(1, position.expand(2, 5), new)


def cache_inputs(batch, length):
    draw = torch.Generator().manual_seed(batch + length)
    return (torch.randn(batch, 2, 20, 4, generator=draw), torch.randn(batch, 2, length, 4, generator=draw),
            torch.tensor(20 - 2 * length - batch))


CACHED = {"cache": {0: "batch"}, "new": {0: "batch", 2: "length"}}


class TwoScales(nn.Module):
    """A norm with a constant scale, followed by a multiplication with a weight."""

    def __init__(self, width=24):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return nn.functional.rms_norm(x, (24,), torch.arange(1.0, 25.0) / 12, 1e-6) * self.weight


@dataclass(frozen=True)
class Model:
    name: str
    module: Callable[[], nn.Module]
    fused: dict[str, int]  # operator -> its number of nodes in the file
    absent: tuple[str, ...] = ()  # operators that the file must not contain
    inputs: Callable = float_inputs
    sizes: tuple = ((2, 5), (3, 7), (1, 1))  # the recorded size first
    axes: dict = field(default_factory=lambda: {"x": {0: "batch", 1: "length"}})
    owner: str = ""  # the module that the nodes belong to
    tolerance: tuple | None = (1e-4, 1e-5)


PAST_AXES = {"x": {0: "batch", 1: "length"}, "past_key": {0: "batch", 2: "past"}, "past_value": {0: "batch", 2: "past"}}
HEADS = {name: {0: "batch", 2: "length"} for name in "qkv"}
ROWS = (
    Model("norm", lambda: Stack(Norm(24)), {"RMSNormalization": 1}, ("Sqrt", "ReduceMean", "Mul"), owner="0"),
    Model("norm of float16", lambda: Stack(Norm(24).half()), {"RMSNormalization": 1}, ("Cast", "Sqrt", "Mul"),
          half_inputs, owner="0", tolerance=(2e-3, 2e-3)),
    Model("norm with 1 + weight", lambda: Stack(Norm(24, lambda weight: 1 + weight)), {"RMSNormalization": 1},
          ("Sqrt", "Mul", "Add"), owner="0"),
    Model("norm of float64", lambda: Stack(nn.Linear(24, 24), nn.RMSNorm(24)).double(), {}, (), double_inputs,
          tolerance=(1e-9, 1e-9)),
    Model("two normalized axes", lambda: Stack(nn.Unflatten(2, (4, 6)), nn.RMSNorm((4, 6))),
          {"RMSNormalization": 1}, owner="1"),
    Model("norm by fourth powers",
          lambda: FunctionModule(lambda x: x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + 1e-6)),
          {"RMSNormalization": 0}),
    Model("norm with two scales", TwoScales, {"RMSNormalization": 1, "Mul": 1}),
    Model("rotary", Rotary, {"RotaryEmbedding": 1}, ("Neg", "Slice", "Add"), sizes=((2, 5), (3, 7), (1, 1))),
    Model("rotary of one batch", Rotary, {"RotaryEmbedding": 1}, ("Neg", "Add", "Expand"), axes={"x": {1: "length"}},
          sizes=((1, 5), (1, 9))),
    Model("rotary of positions", lambda: Rotary(positions=lambda x: (x[..., 0] > 0).cumsum(1)), {"RotaryEmbedding": 1},
          ("Neg", "Add", "Expand")),
    Model("scaled angles by chunks", lambda: Rotary(rotate=rotate_half_by_chunks, scaling=1.25), {"RotaryEmbedding": 1},
          ("Neg", "Add", "Split")),
    Model("partial rotary", lambda: Rotary(4), {"RotaryEmbedding": 1}, ("Neg", "Add", "Slice")),
    Model("rotary in pairs", lambda: Rotary(rotate=rotate_pairs), {"RotaryEmbedding": 1}, ("Neg", "Add")),
    Model("partial rotary in pairs", lambda: Rotary(4, rotate_pairs), {"RotaryEmbedding": 1}, ("Neg", "Slice")),
    Model("rotary by table", Table, {"RotaryEmbedding": 1}, ("Neg", "Add"), sizes=((2, 5), (2, 7), (3, 64))),
    Model("rotary by a table with unequal halves", UnequalHalves, {"RotaryEmbedding": 0, "Neg": 1}),
    Model("rotary of float64", lambda: Rotary().double(), {"RotaryEmbedding": 0}, (), double_inputs,
          tolerance=(1e-6, 1e-6)),
    Model("cache", lambda: CacheWrite(lambda length, start: torch.arange(length) + start), {"TensorScatter": 1},
          ("ScatterElements",), cache_inputs, axes=CACHED),
    Model("cache of one batch", lambda: CacheWrite(lambda length, start: start + torch.arange(length)),
          {"TensorScatter": 1}, ("ScatterElements", "Expand"), cache_inputs, ((1, 5), (1, 7), (1, 1)),
          {"new": {2: "length"}}),
    Model("one position of a cache", lambda: CacheWrite(lambda length, start: start.reshape(1)), {"TensorScatter": 1},
          ("ScatterElements", "Range"), cache_inputs, ((2, 1), (3, 1)), {"cache": {0: "batch"}, "new": {0: "batch"}}),
    Model("repeated writes to one position", RepeatedWrite, {"TensorScatter": 0}, (),
          lambda *_: (torch.rand(2, 8), torch.tensor([2]), torch.ones(2, 5)), axes={}),
    Model("every second position", lambda: CacheWrite(lambda length, start: torch.arange(length) * 2 + start),
          {"TensorScatter": 0, "ScatterElements": 1}, (), cache_inputs, ((2, 5), (3, 4)), axes=CACHED),
    Model("positions backwards", lambda: CacheWrite(lambda length, start: torch.arange(length).flip(0) + start),
          {"TensorScatter": 0, "ScatterElements": 1}, (), cache_inputs, axes=CACHED),
    Model("silu", lambda: Stack(nn.SiLU()), {"Swish": 1}, ("Sigmoid", "Mul"), owner="0"),
    Model("quick gelu", lambda: Stack(QuickGelu()), {"Swish": 1}, ("Sigmoid", "Mul"), owner="0"),
    Model("gate of another tensor", lambda: FunctionModule(lambda x: x * torch.sigmoid(1.702 * x.flip(2))),
          {"Swish": 0, "Sigmoid": 1}),
    Model("gated", Gated, {"SwiGLU": 1}, ("Swish", "Sigmoid", "Mul"), owner=""),
    Model("cached", Cached, {"Attention": 1}, ("Concat", "Softmax"), with_past(4, lambda n: n + 2), axes=PAST_AXES,
          sizes=((2, 5), (3, 1))),
    Model("no past yet", Cached, {"Attention": 1}, ("Concat",), with_past(4, lambda n: 4 - n), axes=PAST_AXES,
          sizes=((2, 1), (3, 4))),
    Model("cached by groups", lambda: Cached(2), {"Attention": 1}, ("Concat", "Expand"), with_past(2, lambda n: n + 2),
          axes=PAST_AXES, sizes=((2, 5), (3, 1))),
    Model("causal with a cache", lambda: Cached(causal=True), {"Attention": 1, "Concat": 2}, (),
          with_past(4, lambda n: n + 2), axes=PAST_AXES, sizes=((2, 5), (3, 3))),
    Model("one head of keys", Attend, {"Attention": 1}, (), heads(4, 1, 1), axes=HEADS),
    Model("one head of values", Attend, {"Attention": 0}, (), heads(4, 4, 1), axes=HEADS),
    Model("one head of queries", Attend, {"Attention": 0}, (), heads(1, 4, 4), axes=HEADS),
    Model("values of one batch", Attend, {"Attention": 0}, (), heads(4, 4, 4, (1, 1, 0)),
          axes={"q": HEADS["q"], "k": HEADS["k"], "v": {2: "length"}}),
    Model("more value heads than key heads", lambda: Attend(enable_gqa=True), {"Attention": 0}, (), heads(4, 2, 4),
          axes=HEADS),
    Model("fewer value heads than key heads", lambda: Attend(enable_gqa=True), {"Attention": 0}, (), heads(4, 4, 2),
          axes=HEADS),
    Model("groups of one shared position", OnePosition, {"Attention": 1, "Expand": 2}, (), heads(4, 2, 2),
          axes={name: {0: "batch"} for name in "qkv"}, sizes=((2, 5), (3, 5))),
    Model("negative scale", lambda: Attend(scale=-0.5), {"Attention": 0}, (), heads(4, 4, 4), axes=HEADS),
    Model("zero scale", lambda: Attend(scale=0.0), {"Attention": 0}, (), heads(4, 4, 4), axes=HEADS),
    Model("rows masked by the lowest number", lambda: Attend(lowest_row), {"Attention": 1}, (), heads(4, 4, 4),
          axes=HEADS),
    Model("rows masked by infinity", lambda: Attend(lambda q: lowest_row(q) * 2), {"Attention": 1}, (), heads(4, 4, 4),
          axes=HEADS),
    Model("joined at opposite ends", JoinedAtOppositeEnds, {"Attention": 1, "Concat": 2}, (), with_other_past,
          sizes=((2, 5), (3, 7)), axes=HEADS | {"past_key": {0: "batch", 2: "past"},
                                                "past_value": {0: "batch", 2: "past"}}),
    Model("running product", lambda: FunctionModule(lambda x: x.cumprod(1)), {"CumProd": 1}, ("Pad", "ReduceProd")),
    Model("bits", lambda: FunctionModule(lambda x: x.view(torch.int32) & 0x7FFFFFFF), {"BitCast": 1}),
)


class QuickGelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


RECENT = recent_operators() | {"BitCast": (26, 28)}  # no older operators replace BitCast


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Returns a function that maps a model to its module and its export arguments, and saves the archive once."""
    folder, saved = tmp_path_factory.mktemp("opsets"), {}

    def archive(model: Model) -> tuple[nn.Module, list]:
        if model.name not in saved:
            torch.manual_seed(1)
            module, inputs = model.module().eval(), model.inputs(*model.sizes[0])
            path = folder / model.name.replace(" ", "_")
            if "BitCast" in model.fused:  # a trace of view(dtype) does not load
                length = torch.export.Dim("length")
                program = torch.export.export(module, inputs, dynamic_shapes=[{0: torch.export.Dim("batch"), 1: length}])
                torch.export.save(program, path.with_suffix(".pt2"))
                saved[model.name] = module, [path.with_suffix(".pt2")]
                return saved[model.name]
            torch.jit.trace(module, inputs, check_trace=False).save(str(path.with_suffix(".pt")))
            torch.save(inputs, path.with_suffix(".inputs"))
            dynamic = [word for name, axes in model.axes.items() for word in
                       ("--dynamic", f"{name}:" + ",".join(f"{axis}={size}" for axis, size in axes.items()))]
            saved[model.name] = module, [path.with_suffix(".pt"), "--inputs", path.with_suffix(".inputs"), *dynamic]
        return saved[model.name]

    return archive


def export_model(archives, model: Model, folder, *options) -> onnx.ModelProto:
    command.run("export", *archives(model)[1], "-o", folder / "m.onnx", "--annotate", "--overwrite", *options)
    file = onnx.load(folder / "m.onnx")
    onnx.checker.check_model(file, full_check=True)
    return file


def results(file: onnx.ModelProto, feeds: dict, in_runtime: bool) -> list:
    if in_runtime:
        session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    return onnx.reference.ReferenceEvaluator(file).run(None, feeds)


def check_numbers(archives, model: Model, file: onnx.ModelProto, in_runtime: bool = True) -> None:
    for size in model.sizes:
        inputs = model.inputs(*size)
        with torch.no_grad():
            expected = archives(model)[0](*inputs)
        feeds = {value.name: tensor.numpy() for value, tensor in zip(file.graph.input, inputs, strict=True)}
        actual = results(file, feeds, in_runtime)
        assert_same_results(actual, expected if isinstance(expected, tuple) else [expected], model.tolerance)


def counts(file: onnx.ModelProto) -> Counter:
    return Counter(node.op_type for node in file.graph.node)


def first_opset(model: Model) -> int:
    """Returns the first opset with all fused operators of the model."""
    return max((RECENT[name][0] for name in model.fused if name in RECENT), default=23)


@pytest.mark.parametrize("model", ROWS, ids=lambda model: model.name)
def test_fused_operators_at_the_first_and_the_newest_opset(archives, model, tmp_path):
    """Exports at the first opset with all fused operators, and at the newest."""
    for opset in sorted({first_opset(model), 28}):
        file = export_model(archives, model, tmp_path, "--opset", opset, "--operators", "fused")
        counted = counts(file)
        assert {name: counted[name] for name in model.fused} == model.fused, counted
        assert not [name for name in model.absent if counted[name]], counted
        check_numbers(archives, model, file, all(opset <= RECENT[name][1] for name in counted if name in RECENT))
        for node in file.graph.node:
            if node.op_type in RECENT and node.op_type in model.fused:
                keys = {entry.key: entry.value for entry in node.metadata_props}
                assert keys.get("pkg.whence.module", "") == model.owner, keys
                assert keys["pkg.whence.confidence"] == "exact"


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("model", ROWS, ids=lambda model: model.name)
def test_default_and_plain_operators(archives, model, opset, tmp_path):
    """ONNX Runtime runs the default file; the plain file contains none of the recent operators."""
    if opset < first_opset(model) and "BitCast" in model.fused:
        command.run("export", *archives(model)[1], "-o", tmp_path / "m.onnx", "--opset", opset, code=4)
        assert not (tmp_path / "m.onnx").exists()
        return
    by_default = export_model(archives, model, tmp_path, "--opset", opset)
    check_numbers(archives, model, by_default)
    for name, (first, last) in RECENT.items():
        if model.fused.get(name) and first <= opset <= last:
            assert counts(by_default)[name], name
    plain = export_model(archives, model, tmp_path, "--opset", opset, "--operators", "plain")
    assert not set(counts(plain)) & set(recent_operators())
    check_numbers(archives, model, plain)


@pytest.mark.parametrize("model", [row for row in ROWS if "BitCast" not in row.fused], ids=lambda model: model.name)
def test_operators_option_changes_nothing_at_the_default_opset(archives, model, tmp_path):
    export_model(archives, model, tmp_path)
    first = (tmp_path / "m.onnx").read_bytes()
    for choice in ("fused", "plain"):
        export_model(archives, model, tmp_path, "--operators", choice)
        assert (tmp_path / "m.onnx").read_bytes() == first


def test_ir_versions_follow_the_opset(archives, tmp_path):
    """Each opset gets the IR version of its ONNX release, but at least 10 for the metadata."""
    by_opset = {}
    for _, ir_version, opset, *_ in onnx.helper.VERSION_TABLE:
        by_opset.setdefault(opset, ir_version)
    assert onnx.defs.onnx_opset_version() == 28
    for opset in range(13, 29):
        file = export_model(archives, ROWS[0], tmp_path, "--opset", opset)
        assert file.ir_version == max(10, by_opset[opset])
        assert {entry.domain: entry.version for entry in file.opset_import}[""] == opset


def test_the_table_matches_onnx_and_onnx_runtime():
    for name, (first, last) in recent_operators().items():
        versions = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == name]
        assert min(versions) == first
        for opset in range(first, 29):
            assert is_supported(name, opset) == (opset <= last or name in NOISY), f"{name} at opset {opset}"


NOISY = ("TensorScatter",)  # ONNX Runtime supports it but prints a warning in each run
NODES = {
    "Attention": "float[1,2,3,8] q, float[1,2,3,8] k => float[1,2,3,8] y: y = Attention(q, k, k)",
    "CumProd": "float[2] x, int64 a => float[2] y: y = CumProd(x, a)",
    "RMSNormalization": "float[2,3] x, float[3] s => float[2,3] y: y = RMSNormalization(x, s)",
    "RotaryEmbedding": "float[1,2,3,8] x, float[1,3,4] c => float[1,2,3,8] y: y = RotaryEmbedding(x, c, c)",
    "SwiGLU": "float[2] a, float[2] b => float[2] y: y = SwiGLU(a, b)",
    "Swish": "float[2] x => float[2] y: y = Swish(x)",
    "TensorScatter": "float[1,2,8,4] c, float[1,2,3,4] n, int64[1] at => float[1,2,8,4] y: y = TensorScatter(c, n, at)",
}


def is_supported(name: str, opset: int) -> bool:
    interface, body = NODES[name].split(": ")
    inputs, outputs = interface.split(" => ")
    file = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) '
                                   f"{{ {body} }}")
    try:
        onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001, ONNX Runtime's exceptions have no common class
        assert "NOT_IMPLEMENTED" in str(error)
        return False
    return True


def test_python_accepts_the_operators_option(tmp_path):
    import whence

    x = torch.randn(2, 24)
    for choice, expected in (("fused", "Swish"), ("plain", "Sigmoid"), (None, "Swish")):
        program = whence.export(nn.SiLU(), x, opset_version=24, operators=choice)
        assert expected in {node.op_type for node in program.model_proto.graph.node}
        torch.testing.assert_close(program(x)[0], F.silu(x))
    with pytest.raises(whence.WhenceError, match="E0101.*'fused'.*'plain'"):
        whence.export(nn.SiLU(), x, operators="newest")


def test_an_unknown_value_of_operators_is_refused(archives, tmp_path):
    result = command.run("export", *archives(ROWS[0])[1], "-o", tmp_path / "m.onnx", "--operators", "new", code=2)
    assert "--operators=new" in result.stderr and "'plain'" in result.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_every_pattern_of_a_llama_is_fused(tmp_path):
    """Every norm, rotation, gate and attention of a Llama with dynamic batch and length is fused."""
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    model = LlamaModel(LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                   num_key_value_heads=2, vocab_size=99, use_cache=False)).eval()
    ids = torch.randint(3, 99, (2, 7))
    mask = torch.ones_like(ids)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=2, max=math.inf)
    axes = {0: batch, 1: length}
    program = torch.export.export(model, kwargs={"input_ids": ids, "attention_mask": mask}, args=(),
                                  dynamic_shapes={"input_ids": axes, "attention_mask": axes})
    torch.export.save(program, tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--opset", 24, "--annotate")
    file = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(file, full_check=True)
    assert {name: counts(file)[name] for name in ("RMSNormalization", "RotaryEmbedding", "Attention", "Swish")} == {
        "RMSNormalization": 5, "RotaryEmbedding": 4, "Attention": 2, "Swish": 2}
    owners = {node.op_type: {entry.value for entry in node.metadata_props if entry.key == "pkg.whence.module"}
              for node in file.graph.node if node.name.startswith("/layers.1/")}
    assert owners["RotaryEmbedding"] == {"layers.1.self_attn"} and owners["Swish"] == {"layers.1.mlp.act_fn"}
    ids = torch.randint(3, 99, (3, 11))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).last_hidden_state
    actual = results(file, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}, True)
    assert_same_results(actual[:1], [expected], (1e-4, 1e-5), scaled=True)
