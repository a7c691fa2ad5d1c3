"""Operators that tools fuse across modules. annotate states exactly the fused modules, with a sidecar and with the file
before the tool. The expected modules follow from each model's structure: every module has one operator."""

import json

import onnx
import pytest
import torch
from torch import nn

import command
from accuracy import rename, tools
from match.test_calls import keys

REFERENCES = ("sidecar", "from")


def write_files(model: nn.Module, inputs: tuple, folder, dynamo: bool = False):
    """Writes the sidecar, PyTorch's file, and that file annotated."""
    torch.jit.trace(model, inputs, check_trace=False).save(folder / "model.pt")
    torch.save(inputs, folder / "inputs.pt")
    command.run("record", folder / "model.pt", "-o", folder / "model.json", "--inputs", folder / "inputs.pt")
    torch.onnx.export(model, inputs, folder / "plain.onnx", dynamo=dynamo, opset_version=18, verbose=False,
                      **({"external_data": False} if dynamo else {}))
    command.run("annotate", folder / "plain.onnx", "--sidecar", folder / "model.json", "-o", folder / "before.onnx")


def optimised_nodes(folder, level: str, reference: str) -> list[onnx.NodeProto]:
    tools.onnxruntime_offline(level)("", folder / "plain.onnx", folder / "tool.onnx")
    options = {"sidecar": ("--sidecar", folder / "model.json"), "from": ("--from", folder / "before.onnx")}[reference]
    command.run("annotate", folder / "tool.onnx", *options, "-o", folder / "annotated.onnx")
    return list(onnx.load(folder / "annotated.onnx").graph.node)


def modules(node: onnx.NodeProto) -> list[str]:
    metadata = keys(node)
    return sorted(json.loads(metadata["modules"])) if "modules" in metadata else [metadata["module"]]


class Channels(nn.Module):
    """ONNX Runtime pads the channels to fill its blocks."""

    def __init__(self, channels: int, head: bool):
        super().__init__()
        self.c1, self.r1 = nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()
        self.c2, self.r2 = nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()
        self.head = nn.Linear(channels, 5) if head else nn.Identity()

    def forward(self, x):
        return self.head(self.r2(self.c2(self.r1(self.c1(x)))).mean((2, 3)))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("channels, head", [(4, True), (12, True), (12, False), (20, False), (24, True)])
def test_blocked_convolutions_have_both_modules(channels, head, reference, tmp_path):
    write_files(Channels(channels, head).eval(), (torch.randn(1, 3, 12, 12),), tmp_path)
    nodes = optimised_nodes(tmp_path, "all", reference)
    convolutions = [node for node in nodes if node.op_type == "Conv"]
    assert {node.domain for node in convolutions} == {"com.microsoft.nchwc"}
    assert [modules(node) for node in convolutions] == [["c1", "r1"], ["c2", "r2"]]
    assert {keys(node)["confidence"] for node in convolutions} == {"matched"}


class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return x + self.b


class Biased(nn.Module):
    """A product and the sum in another module become one Gemm."""

    def __init__(self):
        super().__init__()
        self.product, self.bias = nn.Linear(8, 8, bias=False), Bias()

    def forward(self, x):
        return self.bias(self.product(x))


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_fused_product_and_bias_have_both_modules(reference, tmp_path):
    write_files(Biased().eval(), (torch.randn(2, 8),), tmp_path)
    nodes = optimised_nodes(tmp_path, "basic", reference)
    assert [node.op_type for node in nodes] == ["Gemm"]
    assert modules(nodes[0]) == ["bias", "product"] and keys(nodes[0])["module"] == ""


class Scale(nn.Module):
    def forward(self, x):
        return x / 2.8


class Scaled(nn.Module):
    """A product, a scale in a separate module, and a Softmax."""

    def __init__(self):
        super().__init__()
        self.keys, self.scale, self.softmax = nn.Linear(8, 8), Scale(), nn.Softmax(-1)

    def forward(self, x):
        return self.softmax(self.scale(x @ self.keys(x).transpose(-1, -2)))


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_scale_is_fused_into_the_product_before_it(dynamo, reference, tmp_path):
    write_files(Scaled().eval(), (torch.randn(2, 3, 8),), tmp_path, dynamo)
    by_operator = {node.op_type: modules(node) for node in optimised_nodes(tmp_path, "extended", reference)}
    assert by_operator["FusedMatMul"] == ["", "scale"] and by_operator["Softmax"] == ["softmax"]


class Embeddings(nn.Module):
    """Adds a term that depends on no input, so tools fold it."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(50, 32), nn.Embedding(20, 32), nn.LayerNorm(32)
        self.register_buffer("position_ids", torch.arange(20)[None])

    def forward(self, ids):
        return self.norm(self.words(ids) + self.places(self.position_ids[:, :ids.shape[1]]))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.head = Embeddings(), nn.Linear(32, 4)

    def forward(self, ids):
        return self.head(self.embeddings(ids))


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_norm_fused_with_a_constant_sum_has_both_modules(dynamo, reference, tmp_path):
    write_files(Embedded().eval(), (torch.randint(0, 50, (1, 12)),), tmp_path, dynamo)
    by_operator = {node.op_type: modules(node) for node in optimised_nodes(tmp_path, "extended", reference)}
    assert by_operator["SkipLayerNormalization"] == ["embeddings", "embeddings.norm"]


class Padded(nn.Module):
    """ONNX Runtime fuses the padding, the norm and the activation into the convolution."""

    def __init__(self, channels: int, stride: int):
        super().__init__()
        self.pad, self.act = nn.ConstantPad2d((0, 1, 0, 1), 0.0), nn.ReLU6()
        self.conv, self.norm = nn.Conv2d(channels, 16, 3, stride, bias=False), nn.BatchNorm2d(16)

    def forward(self, x):
        return self.act(self.norm(self.conv(self.pad(x))))


@pytest.mark.parametrize("reference", REFERENCES)
def test_an_activation_is_fused_into_the_convolution_before_it(reference, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(Padded(3, 2), Padded(16, 1), Padded(16, 2)).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    write_files(model, (torch.randn(1, 3, 32, 32),), tmp_path)
    convolutions = [modules(node) for node in optimised_nodes(tmp_path, "all", reference) if node.op_type == "Conv"]
    assert len(convolutions) == 3
    for number, paths in enumerate(convolutions):
        assert f"{number}.conv" in paths
        assert not [path for path in paths if not path.startswith(f"{number}.")]


class Frozen(nn.Module):
    """A batch norm with fixed statistics, written as a product and a sum, as in DETR's backbones."""

    def __init__(self, channels: int):
        super().__init__()
        for name in ("scale", "shift"):
            self.register_buffer(name, torch.rand(1, channels, 1, 1) + 0.5)

    def forward(self, x):
        return x * self.scale + self.shift


class Residual(nn.Module):
    """ONNX Runtime fuses the norms, the sum and the activation after it into two convolutions."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1, self.norm1, self.act1 = nn.Conv2d(3, channels, 3, padding=1, bias=False), Frozen(channels), nn.ReLU()
        self.conv2, self.norm2, self.act2 = nn.Conv2d(channels, 20, 1, bias=False), Frozen(20), nn.ReLU()
        self.shortcut = nn.Sequential(nn.Conv2d(3, 20, 1, bias=False), Frozen(20))

    def forward(self, x):
        return self.act2(self.norm2(self.conv2(self.act1(self.norm1(self.conv1(x))))) + self.shortcut(x))


class Residuals(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.block, self.head = Residual(channels), nn.Linear(20, 4)

    def forward(self, x):
        return self.head(self.block(x).mean((2, 3)))


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("channels", [16, 12])
def test_a_residual_sum_is_fused_into_a_convolution(channels, dynamo, reference, tmp_path):
    torch.manual_seed(0)
    write_files(Residuals(channels).eval(), (torch.randn(1, 3, 16, 16),), tmp_path, dynamo)
    convolutions = [node for node in optimised_nodes(tmp_path, "all", reference) if node.op_type == "Conv"]
    adding = next(node for node in convolutions if len(node.input) > 3)
    first, shortcut = (next(node for node in convolutions if node is not adding and keys(node)["module"] == module)
                       for module in ("block", "block.shortcut"))
    assert modules(first) == ["block.act1", "block.conv1", "block.norm1"]
    assert modules(shortcut) == ["block.shortcut.0", "block.shortcut.1"]
    assert modules(adding) == ["block", "block.act2", "block.conv2", "block.norm2"]


class TanhNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.post = nn.Tanh(), nn.Sigmoid()

    def forward(self, x):
        return self.post(self.act(x)).exp()


class ReluNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        return self.act(self.pre(x)) * 2


def test_the_sidecar_of_another_model_is_refused_without_weights(tmp_path):
    x = torch.randn(2, 4)
    write_files(ReluNetwork().eval(), (x,), tmp_path)
    torch.onnx.export(TanhNetwork(), (x,), tmp_path / "other.onnx", dynamo=False, verbose=False)
    error = command.run("annotate", tmp_path / "other.onnx", "--sidecar", tmp_path / "model.json", "-o",
                        tmp_path / "out.onnx", code=3).stderr
    assert error.startswith("E0206") and "describes another model" in error and "3" in error
    assert not (tmp_path / "out.onnx").exists()


def test_a_cast_without_effect_does_not_join_the_convolution(tmp_path):
    """CLIP converts the pixels to the weights' dtype before its patch convolution. The trace has this operation but the
    reference has no node for it. The file's Cast may be this operation, so its module is the one around the convolution."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    torch.manual_seed(0)
    model = CLIPVisionModel(CLIPVisionConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, image_size=16,
                                             num_attention_heads=2, patch_size=8)).eval()
    forward = model.forward
    model.forward = lambda pixels: forward(pixel_values=pixels, return_dict=False)[0]
    write_files(model, (torch.randn(1, 3, 16, 16),), tmp_path)
    renamed = onnx.load(tmp_path / "plain.onnx")
    rename.rename_everything(renamed)
    onnx.save(renamed, tmp_path / "renamed.onnx")
    command.run("annotate", tmp_path / "renamed.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    cast = next(node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Cast")
    assert cast.input[0] in {value.name for value in renamed.graph.input}
    assert not keys(cast)["module"].endswith("patch_embedding")


def convolution_block(channels_in: int, channels: int, groups: int = 1) -> nn.Sequential:
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.weight)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    size = 1 if groups == 1 else 3
    return nn.Sequential(nn.Conv2d(channels_in, channels, size, padding=size // 2, groups=groups, bias=False), norm,
                         nn.Hardswish())


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_split_activation_after_a_folded_norm_keeps_its_module(dynamo, reference, tmp_path):
    """ONNX Runtime splits each HardSwish into a HardSigmoid and a Mul, for example in MobileNetV3."""
    torch.manual_seed(0)
    layers = [convolution_block(3, 16),
              *(layer for _ in range(3) for layer in (convolution_block(16, 16), convolution_block(16, 16, 16)))]
    write_files(nn.Sequential(*layers).eval(), (torch.randn(1, 3, 12, 12),), tmp_path, dynamo)
    nodes = optimised_nodes(tmp_path, "extended", reference)
    expected = [[f"{i}.2"] for i in range(7)]
    for op_type in ("HardSigmoid", "Mul"):
        parts = [node for node in nodes if node.op_type == op_type]
        assert [modules(node) for node in parts] == expected
        assert {keys(node)["confidence"] for node in parts} == {"matched"}


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_transpose_before_a_fused_norm_keeps_its_module(reference, tmp_path):
    layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    write_files(model, (torch.randn(2, 9, 24),), tmp_path)
    before = onnx.load(tmp_path / "plain.onnx")
    rename.rename_everything(before)
    onnx.save(before, tmp_path / "plain.onnx")
    nodes = optimised_nodes(tmp_path, "extended", reference)
    producer = {name: node for node in nodes for name in node.output}
    producers = [producer[node.input[1]] for node in nodes if node.op_type == "SkipLayerNormalization"]
    transposes = [node for node in producers if node.op_type == "Transpose"]
    assert len(transposes) == 2
    for node in transposes:
        assert keys(node)["confidence"] == "ancestor" or modules(node)[0].endswith("self_attn")
