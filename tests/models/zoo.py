"""The model zoo: real architectures at sizes that are quick to test, each with inputs of two sizes.

Every parameter and buffer gets seeded noise: no two tensors have equal bytes (a new LayerNorm's weights are all 1), and
results differ if folding omits a statistic.

    entry = zoo.MODELS["bert_tiny"]
    model = entry.model()                # torch.nn.Module in eval mode, with the same weights each time
    inputs = entry.inputs(entry.first)   # {argument of forward: tensor}
    archive = zoo.trace("bert_tiny")     # path of the TorchScript archive, one per session
"""

import atexit
import copy
import functools
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import torch

from . import networks

SOURCES = tuple(Path(__file__).parent.glob("*.py"))  # the files that define the models


@dataclass(frozen=True)
class Entry:
    """A model with the data to trace, export and run it."""

    name: str
    build: Callable[[], torch.nn.Module]
    make: Callable[..., dict]  # sizes by name -> inputs by argument name
    first: dict                # the recorded sizes
    second: dict               # other sizes along the dynamic axes
    dynamic: dict              # {input: {axis: symbol}}
    is_new: bool = False       # keeps initial parameters: equal biases, equal norms

    def model(self, seed: int = 0) -> torch.nn.Module:
        """Returns a new copy, which the caller may change. Another seed gives other parameters and persistent buffers."""
        if seed not in self._built:
            self._built[seed] = self._build(seed)
        model = copy.deepcopy(self._built[seed])
        torch.manual_seed(0)
        return model

    @functools.cached_property
    def _built(self) -> dict[int, torch.nn.Module]:
        """Has each built model once per process: initialising millions of weights takes seconds, copying them does not."""
        return {}

    def _build(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        model = self.build()
        if not self.is_new:
            add_noise(model, seed)
        if seed != 0:
            copy_constants(self.model(), model)
        calibrate(model, self.inputs(self.first))
        return model.eval()

    def inputs(self, sizes: dict) -> dict:
        return self.make(**sizes)

    def dynamic_options(self) -> list[str]:
        """Returns the arguments of `whence export` that make the axes dynamic."""
        options = []
        for name, axes in self.dynamic.items():
            options += ["--dynamic", name + ":" + ",".join(f"{axis}={symbol}" for axis, symbol in axes.items())]
        return options


def add_noise(model: torch.nn.Module, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(7 + seed)
    with torch.no_grad():
        for tensor in [*model.parameters(), *(b for _, b in model.named_buffers() if b.is_floating_point())]:
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.01)


def copy_constants(source: torch.nn.Module, model: torch.nn.Module) -> None:
    """Copies the buffers that no checkpoint has, such as the frequencies of rotary positions."""
    kept = source.state_dict().keys()
    for name, buffer in model.named_buffers():
        if name not in kept:
            buffer.copy_(source.get_buffer(name))


def calibrate(model: torch.nn.Module, inputs: dict) -> None:
    """Computes each BatchNorm's statistics from the example inputs; arbitrary ones overflow after fifty layers."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # uses only the statistics of this batch
    with torch.no_grad():
        model.train()(**inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def flatten(output) -> list[torch.Tensor]:
    """Returns the tensors of a model's output in the order of an exporter's outputs."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        return [tensor for value in output.values() for tensor in flatten(value)]
    if isinstance(output, (tuple, list)):
        return [tensor for value in output for tensor in flatten(value)]
    return []


def run(model: torch.nn.Module, inputs: dict) -> list[torch.Tensor]:
    with torch.no_grad():
        return [tensor.detach() for tensor in flatten(model(**inputs))]


def trace_module(model: torch.nn.Module, inputs: dict) -> torch.jit.ScriptModule:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model, example_kwarg_inputs=inputs, strict=False, check_trace=False)


@functools.cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="whence-zoo-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def traced(name: str) -> torch.jit.ScriptModule:
    """Returns the trace in memory, which still has scopes on its nodes."""
    entry = MODELS[name]
    return trace_module(entry.model(), entry.inputs(entry.first))


@functools.cache
def trace(name: str) -> Path:
    path = folder() / f"{name}.pt"
    traced(name).save(str(path))
    return path


@functools.cache
def program(name: str) -> torch.export.ExportedProgram:
    """Returns torch.export's program of the model at its first sizes. Callers must not change it."""
    entry = MODELS[name]
    return torch.export.export(entry.model(), (), dict(entry.inputs(entry.first)), strict=False)


@functools.cache
def inputs_file(name: str) -> Path:
    """Returns a torch-saved dict of the example inputs for `--inputs`."""
    path = folder() / f"{name}.inputs.pt"
    entry = MODELS[name]
    torch.save(entry.inputs(entry.first), path)
    return path


def tokens(vocabulary: int, masked: bool = True) -> Callable[..., dict]:
    def make(batch: int, seq: int) -> dict:
        generator = torch.Generator().manual_seed(batch * 1000 + seq)
        ids = torch.randint(0, vocabulary, (batch, seq), generator=generator)
        if not masked:
            return {"input_ids": ids}
        mask = torch.ones(batch, seq, dtype=torch.int64)
        mask[-1, seq - 2:] = 0  # padding at the end of the last row
        return {"input_ids": ids, "attention_mask": mask}

    return make


def image(argument: str, side: int | None = None) -> Callable[..., dict]:
    def make(batch: int, height: int = side, width: int = side) -> dict:
        generator = torch.Generator().manual_seed(batch * 1000 + height)
        return {argument: torch.randn(batch, 3, height, width, generator=generator)}

    return make


def features(batch: int) -> dict:
    return {"x": torch.randn(batch, 8, generator=torch.Generator().manual_seed(batch))}


TOKENS = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}
PIXELS = {0: "batch", 2: "height", 3: "width"}
SENTENCE, SENTENCES = {"batch": 1, "seq": 16}, {"batch": 3, "seq": 11}

MODELS = {
    entry.name: entry
    for entry in [
        Entry("bert_tiny", networks.bert_tiny, tokens(30522), SENTENCE, SENTENCES, TOKENS),
        Entry("distilbert", networks.distilbert, tokens(2000), SENTENCE, SENTENCES, TOKENS),
        Entry("gpt2", networks.gpt2, tokens(5000), SENTENCE, SENTENCES, TOKENS),
        Entry("vit", networks.vit, image("pixel_values", 32), {"batch": 1}, {"batch": 3},
              {"pixel_values": {0: "batch"}}),
        Entry("mobilenet_v2", networks.mobilenet_v2, image("pixel_values", 64), {"batch": 1}, {"batch": 2},
              {"pixel_values": {0: "batch"}}),
        Entry("resnet50", networks.ResNet50, image("x"), {"batch": 1, "height": 96, "width": 96},
              {"batch": 2, "height": 64, "width": 128}, {"x": PIXELS}),
        Entry("unet", networks.UNet, image("x"), {"batch": 1, "height": 32, "width": 48},
              {"batch": 2, "height": 64, "width": 32}, {"x": PIXELS}),
        Entry("lstm_tagger", networks.LstmTagger, tokens(500, masked=False), {"batch": 2, "seq": 12},
              {"batch": 3, "seq": 7}, {"input_ids": TOKENS["input_ids"]}),
        Entry("shared_block", networks.SharedBlock, features, {"batch": 2}, {"batch": 5}, {"x": {0: "batch"}}),
    ]
}
