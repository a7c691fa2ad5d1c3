"""Models with layers that tools rewrite, and the files that exporters, optimisers and quantisers make of them."""

from pathlib import Path

import numpy as np
import onnx
import torch
from safetensors.torch import save_file
from torch import nn

import onnx_tools


class Images(nn.Module):
    """Convolutions with norms, one of them by groups and without bias, and a transposed one."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.first_norm = nn.BatchNorm2d(16)
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.grouped_norm = nn.BatchNorm2d(16, eps=1e-3)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.up_norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        x = torch.relu(self.grouped_norm(self.grouped(x)))
        return self.head(self.up_norm(self.up(x)).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.output = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        batch, length, size = x.shape
        query, key, value = (layer(x).view(batch, length, 4, size // 4).transpose(1, 2)
                             for layer in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.norm(x + self.output(mixed.transpose(1, 2).reshape(batch, length, size)))
        return x + self.down(nn.functional.gelu(self.up(x)))


class Text(nn.Module):
    """A transformer whose head shares the embedding's table."""

    def __init__(self, size=32):
        super().__init__()
        self.words, self.places = nn.Embedding(100, size), nn.Embedding(24, size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(2))
        self.head = nn.Linear(size, 100, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Series(nn.Module):
    """Recurrent layers, whose gates ONNX has in another order."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 12, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(24, 8, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0])


class Computed(nn.Module):
    """Weights that the model computes from parameters, which exporters fold: by direction and length, from a table of
    relative positions, and an exponential."""

    def __init__(self):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 12, 3, padding=1))
        self.table = nn.Parameter(torch.randn(15, 2))
        self.temperature = nn.Parameter(torch.randn(1))
        self.register_buffer("places", torch.arange(8)[:, None] - torch.arange(8)[None] + 7)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.conv(x).transpose(1, 2)
        scores = (x @ x.transpose(1, 2)).unsqueeze(1) * self.temperature.exp()
        scores = (scores + self.table[self.places].permute(2, 0, 1)).softmax(-1)
        return self.head((scores @ x.unsqueeze(1)).mean(1))


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.linear, self.activation = nn.LayerNorm(size), nn.Linear(size, size), nn.Tanh()

    def forward(self, x):
        return x + self.activation(self.linear(self.norm(x)))


class Pair(nn.Module):
    """Operations whose order of inputs matters, on two inputs with the same sizes, and two results."""

    def __init__(self, size=8):
        super().__init__()
        self.left, self.right = nn.Linear(size, size), nn.Linear(size, size)
        self.register_buffer("mean", torch.linspace(-1, 1, size))
        self.register_buffer("scale", torch.linspace(1, 2, size))
        self.blocks = nn.ModuleList(Block(size) for _ in range(2))
        self.head, self.other = nn.Linear(size, 5), nn.Linear(size, 5)

    def forward(self, first, second):
        x = torch.relu(self.left((first - self.mean) / self.scale)) - self.right(second)
        for block in self.blocks:
            x = block(x)
        return self.head(x), self.other(x)


CLASSES = {"images": Images, "text": Text, "series": Series, "computed": Computed, "pair": Pair}


def inputs_of(name: str, seed: int = 1) -> tuple:
    torch.manual_seed(seed)
    return {"images": lambda: (torch.randn(1, 3, 8, 8),), "text": lambda: (torch.randint(0, 100, (2, 7)),),
            "series": lambda: (torch.randn(2, 5, 8),),
            "computed": lambda: (torch.randn(2, 6, 8),),
            "pair": lambda: (torch.rand(16, 8) * 2 - 1, torch.rand(16, 8) * 2 - 1)}[name]()


def model_of(name: str, seed: int = 0) -> nn.Module:
    """Returns the model with weights as after training: no two parameters are equal."""
    torch.manual_seed(seed)
    model = CLASSES[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.8 + 0.4 * torch.rand_like(parameter)).add_(0.05 * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model


def save_weights(model: nn.Module, path: Path) -> Path:
    save_file({name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}, path)
    return path


def calibration(source: Path, name: str) -> list[dict[str, np.ndarray]]:
    """Returns the run on which static quantisers measure a file of this model."""
    graph = onnx.load(source, load_external_data=False).graph
    return [{value.name: tensor.numpy() for value, tensor in zip(graph.input, inputs_of(name), strict=True)}]


TOOLS = {
    "onnxslim": onnx_tools.onnxslim,
    "onnxsim": onnx_tools.onnxsim,
    "ort_basic": onnx_tools.onnxruntime("BASIC"),
    "ort_all": onnx_tools.onnxruntime("ALL"),
    "float16": onnx_tools.float16(),
    "dynamic": onnx_tools.dynamic_int8(),
    "dynamic_channels": onnx_tools.dynamic_int8(per_channel=True, reduce_range=True, weight_type="QUInt8"),
    "static": onnx_tools.static_int8("QDQ"),
    "static_channels": onnx_tools.static_int8("QDQ", per_channel=True, weight_type="QInt8", activation_type="QInt8"),
    "static_operators": onnx_tools.static_int8("QOperator"),
    "blocks_of_4": onnx_tools.blocks(block_size=32, bits=4, is_symmetric=True),
    "blocks_of_4_asymmetric": onnx_tools.blocks(block_size=32, bits=4, is_symmetric=False),
    "blocks_of_8": onnx_tools.blocks(block_size=32, bits=8, is_symmetric=False),
}


def export(model: nn.Module, name: str, exporter: str, target: Path) -> Path:
    torch.onnx.export(model, inputs_of(name), target, dynamo=exporter == "dynamo", external_data=False,
                      **({"verbose": False} if exporter == "dynamo" else {}))
    return target


def numbers_of(path: Path) -> dict[str, np.ndarray]:
    """Returns the initializers of a file by name."""
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
