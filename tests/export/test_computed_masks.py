"""An attention mask computed from weights so large that whence streams them into the file: relative positions, as in
the encoder of SAM."""

import numpy
import onnxruntime
import pytest
import torch

import command


class RelativePositions(torch.nn.Module):
    """x: float32[1, n, 256] -> float32[1, n, 256]; the mask is the product of queries and learned positions."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(256, 768)  # 786 kB: transposed while it is written
        self.positions = torch.nn.Parameter(torch.randn(64, 16))
        self.out = torch.nn.Linear(256, 256)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 4, 64).permute(2, 0, 3, 1, 4)
        mask = torch.einsum("bhnc,cm->bhnm", q, self.positions[:, :length])
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed_masks")
    torch.manual_seed(3)
    model, x = RelativePositions().eval(), torch.randn(1, 16, 256)
    torch.jit.trace(model, x, check_trace=False).save(str(folder / "model.pt"))
    torch.export.save(torch.export.export(model, (x,)), folder / "model.pt2")
    torch.onnx.export(model, (x,), folder / "foreign.onnx", dynamo=False)
    return folder, model


@pytest.mark.parametrize("name", ["model.pt", "model.pt2"])
def test_export_equals_pytorch(archives, name, tmp_path):
    folder, model = archives
    command.run("export", folder / name, "-o", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    other = torch.randn(1, 16, 256, generator=torch.Generator().manual_seed(9))
    actual = session.run(None, {session.get_inputs()[0].name: other.numpy()})[0]
    with torch.no_grad():
        numpy.testing.assert_allclose(actual, model(other).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["model.pt", "model.pt2"])
def test_layers_with_large_weights_are_matched(archives, name, tmp_path):
    """The sidecar contains no weights, yet the layers with the large weights are matched."""
    folder, _ = archives
    command.run("record", folder / name, "-o", tmp_path / "model.whence.json")
    command.run("annotate", folder / "foreign.onnx", "--sidecar", tmp_path / "model.whence.json",
                "-o", tmp_path / "annotated.onnx")
    modules = {entry["path"]: entry for entry in command.run_json("show", tmp_path / "annotated.onnx")["modules"]}
    assert modules["qkv"]["nodes"] > 0 and modules["out"]["nodes"] > 0
