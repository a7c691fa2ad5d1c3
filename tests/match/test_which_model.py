"""Is the file of this model? What a tool optimised is, however much it fused; a relative with the same names is not."""

import onnx
import pytest
import torch

import command
from accuracy import corpus, score
from accuracy.transformations import BY_NAME


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def export(folder, seed: int, width: int, blocks: int = 3):
    """model.onnx, without annotation; known.onnx, annotated; model.json, the recording."""
    folder.mkdir()
    torch.manual_seed(seed)
    model = torch.nn.Sequential(*[Block(width) for _ in range(blocks)]).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, width)
    torch.jit.trace(model, x).save(str(folder / "model.pt"))
    command.run("record", folder / "model.pt", "-o", folder / "model.json")
    torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=False, opset_version=17, input_names=["x"])
    command.run("annotate", folder / "model.onnx", "-o", folder / "known.onnx", "--sidecar", folder / "model.json")
    return folder


KNOWN = {"--sidecar": "model.json", "--from": "known.onnx"}


@pytest.mark.parametrize("option", KNOWN)
def test_the_same_architecture_of_other_sizes_is_refused(option, tmp_path):
    small, large = export(tmp_path / "small", 0, width=8), export(tmp_path / "large", 0, width=24)
    for each, other in ((small, large), (large, small)):
        error = command.run("annotate", each / "model.onnx", "-o", tmp_path / "out.onnx", option, other / KNOWN[option],
                            code=3).stderr
        assert "E0206" in error and "another model" in error and not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("option", KNOWN)
def test_other_weights_in_the_same_sizes_are_refused_and_allowed(option, tmp_path):
    first, second = export(tmp_path / "first", 0, width=8), export(tmp_path / "second", 1, width=8)
    arguments = ["annotate", first / "model.onnx", "-o", tmp_path / "out.onnx", option, second / KNOWN[option]]
    error = command.run(*arguments, code=3).stderr
    assert "E0206" in error and "other weights" in error and not (tmp_path / "out.onnx").exists()
    report = command.run_json(*arguments, "--allow-different-weights")
    assert report["matched"] == report["nodes"] > 0


def test_the_file_before_is_known_by_its_weights_when_all_names_are_lost(tmp_path):
    made = export(tmp_path / "made", 0, width=8)
    model = onnx.load(made / "model.onnx")
    for number, tensor in enumerate(model.graph.initializer):
        for node in model.graph.node:
            node.input[:] = [f"w{number}" if name == tensor.name else name for name in node.input]
        tensor.name = f"w{number}"
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    onnx.save(model, tmp_path / "bare.onnx")
    report = command.run_json("annotate", tmp_path / "bare.onnx", "-o", tmp_path / "out.onnx", "--from",
                              made / "known.onnx")
    assert report["parameters"]["by_digest"] == report["parameters"]["known"] > 0


@pytest.mark.parametrize("file", ["ort-extended", "renamed+ort-extended"])
def test_a_heavily_fused_file_is_of_the_file_before(file, tmp_path):
    corpus.make(tmp_path, command.BINARY, "gpt_neox", ["torchscript-18"], [file])
    found = score.score_row(command.BINARY, tmp_path / "gpt_neox" / "torchscript-18", BY_NAME[file], "before")
    assert found.total() > 50 and not found.failures
