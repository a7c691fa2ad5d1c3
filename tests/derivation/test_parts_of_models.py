"""An encoder and a decoder of one checkpoint, in two files: attest, refit and weights of each, and of both together."""

import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import whence
from safetensors.torch import load_file, save_file, save_model
from torch import nn

import small_models as models
from command import run


class Stack(nn.Module):
    def __init__(self, table, crosses):
        super().__init__()
        self.table, self.query, self.up = table, nn.Linear(16, 16), nn.Linear(16, 16)
        self.cross = nn.Linear(16, 16) if crosses else None

    def forward(self, ids, other=None):
        x = self.table(ids)
        x = x + torch.softmax(self.query(x) @ x.transpose(1, 2), -1) @ x
        return self.up(x if other is None else x + torch.tanh(self.cross(other)))


class Decoder(nn.Module):
    """The wrapper that is exported as the second file."""

    def __init__(self, whole):
        super().__init__()
        self.decoder, self.head = whole.decoder, whole.head

    def forward(self, ids, other):
        return self.head(self.decoder(ids, other))


class Whole(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.shared = nn.Embedding(40, 16)
        self.encoder, self.decoder = Stack(self.shared, False), Stack(self.shared, True)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.shared.weight
        self.eval()

    def parts(self):
        ids = torch.arange(10).reshape(2, 5)
        with torch.no_grad():
            return {"encoder": (self.encoder, (ids,)), "decoder": (Decoder(self), (ids, self.encoder(ids)))}


def save_all_names(model, path):
    save_file({name: each.clone() for name, each in model.state_dict().items()}, path)


# How a training program saves tied parameters: under one name, under all with a copy each, or under all with one tensor.
FORMS = {"one.safetensors": lambda model, path: save_model(model, str(path)), "all.safetensors": save_all_names,
         "tied.pt": lambda model, path: torch.save(model.state_dict(), path)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for seed in (0, 1):
        whole = Whole(seed)
        for form, save in FORMS.items():
            save(whole, folder / f"{seed}.{form}")
        for name, (module, inputs) in whole.parts().items():
            if seed == 0:
                with whence.record(folder / f"{name}.whence.json"):
                    torch.export.export(module, inputs)
            torch.onnx.export(module, inputs, folder / f"{name}.{seed}.onnx", dynamo=True, external_data=False, verbose=False)
    return folder


def attest(folder, part, model, form, *options):
    return run("attest", model, "--weights", folder / f"0.{form}", "--sidecar", folder / f"{part}.whence.json", *options,
               code=None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_part_is_attested_and_refitted_with_the_whole_checkpoint(folder, tmp_path, part, form):
    assert attest(folder, part, folder / f"{part}.0.onnx", form, "-o", tmp_path / "statement.json").returncode == 0
    for source in (("--base", folder / f"0.{form}"), ("--statement", tmp_path / "statement.json")):
        run("refit", folder / f"{part}.0.onnx", *source, "--weights", folder / f"1.{form}", "--sidecar",
            folder / f"{part}.whence.json", "-o", tmp_path / "new.onnx", "--overwrite")
        found, expected = models.numbers_of(tmp_path / "new.onnx"), models.numbers_of(folder / f"{part}.1.onnx")
        assert found.keys() == expected.keys()
        assert all(found[name].tobytes() == expected[name].tobytes() for name in found)


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_the_other_part_are_found(folder, tmp_path, form):
    """Encoder and decoder have parameters of the same names and sizes."""
    model = onnx.load(folder / "encoder.0.onnx")
    query = Whole(0).decoder.query.bias.detach().numpy()
    tensor = next(each for each in model.graph.initializer if each.name == "query.bias")
    tensor.CopyFrom(onnx.numpy_helper.from_array(query, tensor.name))
    onnx.save(model, tmp_path / "changed.onnx")
    result = attest(folder, "encoder", tmp_path / "changed.onnx", form)
    assert result.returncode == 1 and "tensor query.bias" in result.stdout


@pytest.mark.parametrize("form", FORMS)
def test_the_state_dicts_of_both_parts_are_that_of_the_whole(folder, tmp_path, form):
    state = {}
    for part in ("encoder", "decoder"):
        report = json.loads(run("weights", folder / f"{part}.0.onnx", "--base", folder / f"0.{form}", "--sidecar",
                                folder / f"{part}.whence.json", "-o", tmp_path / f"{part}.safetensors", "--json").stdout)
        assert report["missing"] == {} and report["elsewhere"]
        state |= load_file(tmp_path / f"{part}.safetensors")
    whole = Whole(1)
    missing, unexpected = whole.load_state_dict(state, strict=False)
    tied = {"shared.weight", "head.weight", "encoder.table.weight", "decoder.table.weight"}
    assert not unexpected and set(missing) <= tied and (form == "one.safetensors" or not missing)
    expected = Whole(0).state_dict()
    assert all(torch.equal(each, expected[name]) for name, each in whole.state_dict().items())


def test_parts_with_shared_weights_in_one_file(folder, tmp_path):
    paths = []
    for part in ("encoder", "decoder"):
        paths.append(tmp_path / f"{part}.onnx")
        paths[-1].write_bytes((folder / f"{part}.0.onnx").read_bytes())
    assert whence.share_weights(paths, "weights.data").saved > 0
    for part, path in zip(("encoder", "decoder"), paths, strict=True):
        assert attest(folder, part, path, "one.safetensors").returncode == 0
        target = tmp_path / f"new.{part}.onnx"
        run("refit", path, "--base", folder / "0.one.safetensors", "--weights", folder / "1.one.safetensors", "--sidecar",
            folder / f"{part}.whence.json", "-o", target)
        module, inputs = Whole(1).parts()[part]
        session = ort.InferenceSession(target, providers=["CPUExecutionProvider"])
        [found] = session.run(None, {each.name: value.numpy() for each, value in
                                     zip(session.get_inputs(), inputs, strict=True)})
        np.testing.assert_allclose(found, module(*inputs).detach().numpy(), atol=1e-4)
