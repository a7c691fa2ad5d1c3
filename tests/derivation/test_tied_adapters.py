"""whence refit --lora: adapters on modules and weights that have several names."""

import numpy as np
import onnxruntime as ort
import pytest
import torch
import whence
from safetensors.torch import save_file, save_model
from torch import nn

from command import run
from test_adapters import write_adapter


class Shared(nn.Module):
    """A layer under two names, and a head whose weight is the embedding's."""

    def __init__(self, calls_both):
        super().__init__()
        torch.manual_seed(0)
        self.calls_both = calls_both
        self.table, self.middle = nn.Embedding(40, 16), nn.Linear(16, 16)
        self.again = self.middle
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.table.weight
        self.eval()

    def forward(self, ids):
        x = torch.tanh(self.middle(self.table(ids)))
        return self.head(self.again(x) if self.calls_both else x)


IDS = torch.arange(10).reshape(2, 5)
FORMS = {"one.safetensors": lambda model, path: save_model(model, str(path)),
         "all.safetensors": lambda model, path: save_file({n: each.clone() for n, each in model.state_dict().items()}, path),
         "tied.pt": lambda model, path: torch.save(model.state_dict(), path)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tied")
    for calls_both in (False, True):
        model, name = Shared(calls_both), "both" if calls_both else "once"
        with whence.record(folder / f"{name}.whence.json"):
            torch.export.export(model, (IDS,))
        torch.onnx.export(model, (IDS,), folder / f"{name}.onnx", dynamo=True, external_data=False, verbose=False)
    for form, save in FORMS.items():
        save(Shared(False), folder / form)
    return folder


def factors(outputs=16):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(4, 16, generator=generator), 0.2 * torch.randn(outputs, 4, generator=generator)


def refit(folder, name, form, adapter, target, *options):
    return run("refit", folder / f"{name}.onnx", "--base", folder / form, "--sidecar", folder / f"{name}.whence.json",
               "--lora", adapter, "-o", target, *options, code=None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alias", ["middle", "again"])
def test_an_adapter_of_a_layer_with_two_names_is_merged(folder, tmp_path, alias, form):
    a, b = factors()
    result = refit(folder, "once", form, write_adapter(tmp_path / "adapter", {alias: (a, b)}), tmp_path / "new.onnx")
    assert result.returncode == 0, result.stderr
    merged = Shared(False)
    with torch.no_grad():
        merged.middle.weight += 8 / 4 * (b @ a)
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: IDS.numpy()})
    np.testing.assert_allclose(found, merged(IDS).detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name, module", [("both", "middle"), ("both", "again"), ("once", "head"), ("both", "head")])
def test_an_adapter_is_refused_if_another_operation_reads_the_weight(folder, tmp_path, name, module, form):
    """PEFT adapts the calls by one name only, and one tensor of the file stands for all."""
    adapter = write_adapter(tmp_path / "adapter", {module: factors(40 if module == "head" else 16)})
    result = refit(folder, name, form, adapter, tmp_path / "new.onnx")
    assert result.returncode == 3 and "E0211" in result.stderr and not (tmp_path / "new.onnx").exists()
    assert f"{module}.weight" in result.stderr and "2 operations" in result.stderr and "merge_and_unload" in result.stderr


def test_weights_that_were_merged_are_taken(folder, tmp_path):
    """The remedy of the error: a merged adapter changes all calls."""
    a, b = factors(40)
    merged = Shared(True)
    with torch.no_grad():
        merged.head.weight += b @ a
    save_model(merged, str(tmp_path / "merged.safetensors"))
    run("refit", folder / "both.onnx", "--base", folder / "all.safetensors", "--weights", tmp_path / "merged.safetensors",
        "--sidecar", folder / "both.whence.json", "-o", tmp_path / "new.onnx")
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: IDS.numpy()})
    np.testing.assert_allclose(found, merged(IDS).detach().numpy(), atol=1e-4)
