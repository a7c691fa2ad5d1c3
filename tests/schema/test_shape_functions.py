"""Compares every shape function with PyTorch: derives symbolic sizes, then checks several sizes, including 0 and 1."""

import importlib.util
import random
import subprocess

import pytest
import torch

import command

CHECKER = command.BINARY.parent / "shape_checker"
LETTERS = "abcdefgh"

# expression | axes of x; y; z; w, one letter for each size. A prefix selects the content: "long:" for integers below 2,
# "zero:" for zeros, "bool:" for booleans.
CASES = """
x + y | a b; b
x + y | a b; a 1
torch.where(y, x, z) | a b; bool: a b; b
x.masked_fill(y, 0.5) | a b; bool: b
torch.clamp(x, min=y) | a b; b
x.sum(), x.sum(0), x.sum([0, 2], keepdim=True), x.mean(-1), x.var(1), torch.std_mean(x, 0) | a b c
x.amax(0), x.amax([0, 1], keepdim=True), x.max(dim=1)[0], x.max(), torch.max(x, x), x.argmax(1, keepdim=True) | a b c
x.median(dim=1)[0], x.kthvalue(1, 0)[0], x.mode(1)[0], x.topk(1, 0)[1], torch.norm(x, 2.0, 1), x.logsumexp(1) | a b c
x.all(), x.any(1), x.prod(0), torch.linalg.vector_norm(x, dim=0), x.aminmax(dim=0)[1], torch.var_mean(x, 1) | a b c
torch.cosine_similarity(x, y, 1) | a b; a b
x.sort(0)[0], x.cummax(1)[1], x.flip(0), x.roll(1, 0), x.tril(), F.softmax(x, -1), x.cumsum(0) | a b
F.layer_norm(x, [4]), F.group_norm(x.view(x.size(0), 4, 1), 2), F.gelu(x), F.dropout(x, 0.5, False) | a 4
x.gather(1, y) | a b; zero: a c
x.view(-1), x.reshape(-1, 2), x.view(x.size(0), 2, 3, -1), x.reshape([6, -1]), x.flatten() | a 6 b
x.flatten(1), x.flatten(0, 1), x.unflatten(1, [2, -1]), x.ravel() | a 6 b
x.expand(5, -1, 3), x.expand(-1, 4) | a 1
x.reshape_as(y), x.expand_as(x), x.view_as(y) | a b; b a
x.permute(2, 0, 1), x.transpose(0, -1), x.swapaxes(0, 1), x.mT, x.movedim(0, 2), x.movedim([0, 1], [2, 0]) | a b c
x.t() | a b
x[1:], x[:2], x[:-1], x[-3:], x[1:-1], x[::2], x[3:1], x[-2:5:3], x[:, 2:7] | a b
x.narrow(0, 0, 1), x.select(1, 0), x[0], x[:, -1], x.unsqueeze(1), x.unsqueeze(-1), x[None] | a b
x.squeeze(1), x.squeeze(), x.squeeze([1, 2]) | 3 1 1
x.unfold(0, 2, 1), x.unfold(1, 3, 2) | a b
x.diagonal(), x.diagonal(1), x.diagonal(-2), x.diagonal(0, 1, 2) | a b c
torch.view_as_real(torch.view_as_complex(x)) | a 2
torch.atleast_3d(x) | a b c
x.as_strided([2, 1], [1, 1]) | a b
torch.cat([x, y]), torch.stack([x, x], 1), torch.cat([x, y, x], -2) | a b; c b
torch.cat([x, y], 1) | a b; a c
torch.broadcast_tensors(x, y), torch.meshgrid([z, w], indexing='xy'), torch.meshgrid([z, w]) | a b; b; c; d
x.split(2), x.split([1, 3], 1), x.chunk(2, 1), x.unbind(1), x.tensor_split(3, 1), x.tensor_split([1, 2]) | 5 4 a
x.repeat(2, 1), x.repeat(3, 2, 1), x.tile([2]), x.repeat_interleave(3, 0), x.repeat_interleave(2) | a b
F.pad(x, [1, 2]), F.pad(x, [0, 0, 3, -1]), F.pad(x, [1, 1], mode='reflect'), F.pad(x, [2, 1], mode='replicate') | a b c
x.index_select(1, y), x[:, y], x[y, y], x[y], x[y[:, None], y], x[:, :, y], x[y, :, y] | a b c; zero: d
x[y], x[z], x[:, z[0]] | a b; bool: a; bool: a b
x.take_along_dim(y, 1), F.embedding(y, x), x.take(y) | a b; zero: a c
F.one_hot(x, 4), F.one_hot(x), x.nonzero(), torch.where(x), x.masked_select(x > 0), x.argwhere() | zero: a b
x @ y, torch.mm(x, y), torch.linalg.matmul(x, y) | a b; b c
x @ y, torch.einsum('hij,hjk->hik', x, y), torch.bmm(x, y) | h a b; h b c
x @ y, y @ y, torch.dot(y, y), torch.mv(x, y), torch.outer(y, y) | a b; b
x @ y | 3 1 a b; 2 b c
torch.addmm(x, y, z), torch.einsum('ij,jk', y, z) | c; a b; b c
torch.baddbmm(x, y, z) | 1 1; h a b; h b c
torch.addbmm(x, y, z) | c; h a b; h b c
torch.addmv(x, y, z) | a; a b; b
F.linear(x, y), F.linear(x, y[0]) | a b 4; c 4
F.bilinear(x, y, z) | a b; a c; d b c
F.scaled_dot_product_attention(x, y, z) | a 2 b 4; a 2 c 4; a 2 c d
torch.fft.rfft(x), torch.fft.rfft(x, dim=0), torch.fft.irfft(torch.fft.rfft(x)), torch.fft.fft(x) | a b
F.conv1d(x, y), F.conv1d(x, y, stride=2, padding=1), F.conv1d(x, y, padding='same', dilation=2) | a 4 b; 6 4 3
F.conv2d(x, y, stride=[2, 1], padding=[1, 0]), F.conv_transpose2d(x, z, stride=2, output_padding=1) | a 4 b c; 6 4 3 2; 4 6 3 2
F.conv3d(x, y) | a 2 b c d; 3 2 1 2 2
F.conv_transpose1d(x, y, padding=1, groups=2), F.conv_transpose1d(x, y, stride=3) | a 4 b; 4 5 3
F.conv_transpose3d(x, y) | a 2 b c d; 2 3 1 2 2
F.max_pool1d(x, 2), F.avg_pool1d(x, 3, 1, 1), F.adaptive_avg_pool1d(x, 3), F.max_pool1d(x, 2, ceil_mode=True) | a b c
F.max_pool2d(x, 2), F.avg_pool2d(x, [3, 2], [2, 1], [1, 0]), F.adaptive_avg_pool2d(x, [2, 3]) | a 2 b c
F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool2d(x, 3, 2, 0, ceil_mode=True), F.avg_pool2d(x, 2, ceil_mode=True) | a 2 b c
F.max_pool2d(x, 2, 1, 0, 2), F.max_pool2d(x, 2, return_indices=True), F.adaptive_max_pool2d(x, [3, 2]) | a 2 b c
F.max_pool3d(x, 2), F.avg_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2), F.adaptive_max_pool3d(x, 2) | a 2 b c d
F.adaptive_max_pool1d(x, 3), F.max_pool1d(x, 2, return_indices=True) | a b c
F.max_pool3d(x, 2, return_indices=True) | a 2 b c d
F.interpolate(x, scale_factor=2.0), F.interpolate(x, size=[7]), F.interpolate(x, scale_factor=0.5, mode='linear') | a 2 b
F.interpolate(x, scale_factor=[2.0, 3.0], mode='bilinear'), F.interpolate(x, [3, 4], mode='bicubic') | a 2 b c
F.interpolate(x, scale_factor=2.0), F.interpolate(x, scale_factor=2.0, mode='nearest-exact') | a 2 b c
F.interpolate(x, [5, 6], mode='bilinear', antialias=True), F.interpolate(x, [5, 6], mode='bicubic', antialias=True) | a 2 b c
F.interpolate(x, scale_factor=2.0), F.interpolate(x, scale_factor=0.25, mode='trilinear') | a 2 b c d
F.interpolate(x, scale_factor=2.0, mode='nearest-exact') | a 2 b c d
F.interpolate(x, scale_factor=2.0, mode='nearest-exact') | a 2 b
F.pixel_shuffle(x, 2) | a 8 b c
F.grid_sample(x, y, align_corners=False) | a 2 b c; a d e 2
F.unfold(x, [2, 3], stride=2), F.fold(F.unfold(x, 2), [4, 5], 2), F.glu(x, 1) | a 2 4 5
F.unfold(x, 2, padding=1), F.glu(x) | a 2 b 6
x.new_zeros([2, 3]), torch.zeros_like(x), x.new_full([x.size(0), 2], 1.0), torch.full([x.numel()], 2), torch.ones(x.size(1)) | a b
torch.arange(x.size(0)), torch.arange(1, x.size(0) + x.size(1), 2), torch.eye(x.size(0)), torch.eye(2, x.size(1)) | a b
torch.arange(x.size(0), 0, -2), torch.arange(x.size(0) - 1, -1, -1) | a b
torch.linspace(0, 1, x.size(0)), torch.hann_window(x.size(0)), torch.zeros(x.size(0) // 2 + 1, x.size(1) % 3) | a b
torch.zeros(x.size(0) * 2 - min(x.size(1), 3)), torch.zeros(max(x.size(0), 4), len(x)), torch.zeros(-x.size(0) + 50) | a b
torch.rand(x.size(0)), torch.randn(x.size(0)), torch.empty(x.size(0)), torch.randint(3, [x.size(0)]) | a b
x[:x.size(1)], x[x.size(1):], x[: x.size(0) // 2], x.narrow(0, 0, x.size(0) // 2), x[-1 - x.size(1) :] | a b
x.view(x.size(0) * x.size(1), -1), x.view(-1, x.size(1) // 2, 2, x.size(2)), x.expand(2, -1, x.size(1), -1) | a 4 b
x.scatter(1, y, 0.5), x.index_add(0, y[0], x[y[0]]), x.index_fill(0, y[0], 1.0) | a b; zero: a b
torch.lstm(x, [y, y], [z, z, w, w], True, 1, 0.0, False, False, True) | a b 3; 1 a 4; 16 3; 16
torch.gru_cell(x, y, z, w) | a 3; a 4; 12 3; 12 4
torch.rnn_tanh_cell(x, y, z, w) | a 3; a 4; 4 3; 4 4
torch.rnn_relu_cell(x, y, z, w) | a 3; a 4; 4 3; 4 4
torch.lstm_cell(x, [y, y], z, w) | a 3; a 4; 16 3; 16 4
torch.ops.aten.nonzero_numpy(x) | zero: a b
torch.ops.aten._unique(x), torch.ops.aten._unique2(x, True, True, True) | zero: a b
x.relu_(), x.add_(y), x.copy_(y), x.view(-1).mul_(2) | a b; b
F.prelu(x, y), F.rms_norm(x, [4]) | a 4 4; 4
F.batch_norm(x, y, y), F.instance_norm(x), F.channel_shuffle(x, 2) | a 4 b c; 4
(x > 0) & (x < 1), (x > 0) | (x < 1), (x > 0) ^ (x < 1), y << y, y >> y | a b; zero: b
torch._convolution(x, y, None, [1], [0], [1], False, [0], 1, False, False, False, False), torch.convolution(x, y, None, [2], [1], [1], False, [0], 1) | a 4 b; 6 4 3
torch.ops.aten._convolution_mode(x, y, None, [1], 'same', [1], 1) | a 4 b; 6 4 3
torch.ops.aten._unsafe_view(x, [-1, 2]), torch.ops.aten._reshape_alias(x, [2, 3], [3, 1]), x.index_put([y], z) | 2 4; zero: 1; 4
torch.ops.aten._unsafe_index_put(x, [y], z), x.index_copy(0, y, z), x.index_reduce(0, y, z, 'mean') | a 4; zero: b; b 4
torch.constant_pad_nd(x, [1, 2]), torch.ops.aten.reflection_pad1d(x, [1, 1]), torch.ops.aten.replication_pad1d(x, [2, 1]) | a b c
torch.ops.aten.reflection_pad2d(x, [1, 1, 2, 1]), torch.ops.aten.replication_pad2d(x, [2, 1, 1, 1]) | a 2 b c
torch.ops.aten.reflection_pad3d(x, [1, 1, 2, 1, 1, 1]), torch.ops.aten.replication_pad3d(x, [2, 1, 1, 1, 0, 1]) | a 2 b c d
torch.ops.aten.grid_sampler_2d(x, y, 0, 0, False) | a 2 b c; a d e 2
torch.ops.aten.grid_sampler_3d(x, y, 0, 0, False) | a 2 b c 3; a d e 2 3
torch.gru(x, y, [z, w], False, 1, 0.0, False, False, True) | a b 3; 1 a 4; 12 3; 12 4
torch.rnn_tanh(x, y, [z, w], False, 1, 0.0, False, False, False) | b a 3; 1 a 4; 4 3; 4 4
torch.rnn_relu(x, y, [z, w, z, w], False, 1, 0.0, False, True, False) | b a 3; 2 a 4; 4 3; 4 4
torch.hamming_window(x.size(0)), torch.bartlett_window(x.size(0)), torch.blackman_window(x.size(0)), torch.logspace(0, 1, x.size(1)) | a b
torch.scalar_tensor(x.size(0)), x.new_empty([x.size(0)]), x.new_ones([2, x.size(1)]) | a b
x.masked_scatter(x > 0, x), x.put(y, z), x.renorm(2, 0, 1.0), torch.vdot(z, z) | a b; zero: c; c
x.scatter_add(1, y, x), x.scatter_reduce(1, y, x, 'sum'), x.select_scatter(x[0], 0, 0), x.diagonal_scatter(x.diagonal()) | a b; zero: a b
torch.view_as_complex(x).imag, torch.ops.aten.rsub(x, 1.0), torch.ops.aten.copy(x, x[:1]) | a 2
torch.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 255), torch.fake_quantize_per_channel_affine(x, y.abs() + 1, z.int(), 0, 0, 255) | 3 a; 3; zero: 3
torch.ops.aten.norm(x, 2.0, [1]) | a 4
torch.unsafe_split(x, 2), torch.unsafe_split_with_sizes(x, [1, 3], 1), x.split_with_sizes([1, 3], 1) | 5 4 a
torch.bernoulli(x.sigmoid()) | a b
x.real, x.to(torch.int64), x.double(), x.type_as(x), x.contiguous(), x.clone(), x.detach(), x.argsort() | a b
""".strip().splitlines()

# Operators whose sizes depend on data or on a fraction, and operators that scripted models do not call.
OPEN = {"aten::one_hot", "aten::nonzero", "aten::where", "aten::masked_select", "aten::argwhere", "aten::index",
        "aten::nonzero_numpy", "aten::_unique", "aten::_unique2", "aten::max_pool2d", "aten::slice", "aten::reshape", "aten::unbind"}
ONE_TENSOR = ("torch.{0}(x)", "x.{0}()", "F.{0}(x)", "torch.{0}(x, x)", "x.{0}(x)", "torch.{0}(x, 0)", "torch.{0}(x, 1, 0)",
              "torch.special.{0}(x)", "torch.ops.aten.{0}(x)", "torch.{0}(x > 0, x > 0)", "torch.{0}((10 * x).long(), (10 * x).long())",
              "torch.ops.aten.{0}(x, 0.5)", "torch.{0}(x, x, x)", "torch.{0}((10 * x).long())", "torch.fft.{0}(x)",
              "torch.ops.aten.{0}(x, 0.5, False)", "torch.ops.aten.{0}(x, -1, False)", "torch.{0}(x, 0.5, 0.5)")


def save_archive(expression, count, folder):
    """Saves a scripted model that returns the expression. Returns None if PyTorch has no such operator."""
    arguments = ", ".join(f"{name}: torch.Tensor" for name in "xyzw"[:count])
    source = folder / "model.py"
    source.write_text("import torch\nimport torch.nn.functional as F\n\n\nclass Model(torch.nn.Module):\n"
                      f"    def forward(self, {arguments}):\n        return {expression}\n")
    spec = importlib.util.spec_from_file_location("model", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = folder / f"{len(list(folder.iterdir()))}.pt"
    try:
        torch.jit.script(module.Model().eval()).save(str(path))
    except RuntimeError:
        return None
    return path


def checker_input(path, inputs, seed):
    letters, kinds = [], []
    for text in inputs:
        kind, _, axes = text.rpartition(":")
        kinds.append(kind.strip() or "float")
        letters.append(axes.strip())
    draw = random.Random(seed)
    names = sorted(set("".join(letters)) & set(LETTERS))
    sets = [" ".join(f"{name}={draw.randint(4, 13)}" for name in names) for _ in range(3)]
    sets += [" ".join(f"{name}={size(draw)}" for name in names)
             for size in (lambda draw: 1, lambda draw: 0, lambda draw: draw.randint(0, 3), lambda draw: draw.randint(1, 30))]
    return "|".join([str(path), ";".join(letters), ";".join(kinds), *sets])


def checker_output(lines):
    result = subprocess.run([CHECKER], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def verdicts(answer):
    return [part.split(":") for part in answer.replace("aten::", "\0aten/").split("\0")[1:]]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Returns the names of all operators with a shape function, and (name, verdict, expression) of each comparison."""
    folder = tmp_path_factory.mktemp("models")
    cases = [[part.strip() for part in case.rsplit(" | ", 1)] for case in CASES]
    lines, texts = [], []
    for expression, inputs in cases:
        inputs = inputs.split(";")
        for part in split_expressions(expression):
            path = save_archive(part, len(inputs), folder)
            assert path is not None, part
            lines.append(checker_input(path, inputs, len(lines)))
            texts.append(part)
    names = set(subprocess.run([CHECKER, "names"], capture_output=True, text=True, check=True).stdout.split())
    rows = [*zip(texts, checker_output(lines), strict=True)]
    lines, texts = [], []
    compared = " ".join(answer for _, answer in rows)
    for name in sorted(names):
        if f"aten::{name}:" in compared:
            continue
        for form in ONE_TENSOR:
            expression = form.format(name)
            try:
                eval(expression, {"torch": torch, "F": torch.nn.functional, "x": torch.rand(3, 4)})
            except Exception:
                continue
            path = save_archive(expression, 1, folder)
            if path is not None:
                lines.append(checker_input(path, ["a b"], len(lines)))
                texts.append(expression)
                break
    comparisons = []
    rows += zip(texts, checker_output(lines), strict=True)
    for text, answer in rows:
        assert int(answer.split()[0]) >= 2, f"{text}: PyTorch ran at {answer}"
        comparisons += [(name.strip().removeprefix("aten/"), verdict.strip(), text) for name, verdict, *_ in verdicts(answer)]
    return names, comparisons


def split_expressions(text):
    """Splits a tuple at its outermost commas."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def test_derived_sizes_equal_those_of_pytorch(results):
    assert not [row for row in results[1] if row[1].startswith("wrong")]


def test_sizes_that_depend_only_on_shapes_are_derived(results):
    assert not [row for row in results[1] if row[1] in ("partly", "unknown") and "aten::" + row[0] not in OPEN]


def test_every_shape_function_is_compared(results):
    names, comparisons = results
    assert names - {name for name, *_ in comparisons} == set()
