"""annotate accepts a file of the recorded model after any fusion, and refuses related models with equal names."""

import onnx
import pytest
import torch
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from safetensors.torch import save_file

import command
import whence
from accuracy import corpus, rename, score
from accuracy.transformations import BY_NAME


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def export(folder, seed: int, width: int, blocks: int = 3):
    """Writes model.onnx without metadata, the annotated known.onnx, and the recording model.json."""
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
def test_an_equal_architecture_with_other_sizes_is_refused(option, tmp_path):
    small, large = export(tmp_path / "small", 0, width=8), export(tmp_path / "large", 0, width=24)
    for source, other in ((small, large), (large, small)):
        error = command.run("annotate", source / "model.onnx", "-o", tmp_path / "out.onnx", option, other / KNOWN[option],
                            code=3).stderr
        assert "E0206" in error and "another model" in error and not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("option", KNOWN)
def test_other_weights_of_equal_sizes_are_refused_unless_allowed(option, tmp_path):
    first, second = export(tmp_path / "first", 0, width=8), export(tmp_path / "second", 1, width=8)
    arguments = ["annotate", first / "model.onnx", "-o", tmp_path / "out.onnx", option, second / KNOWN[option]]
    error = command.run(*arguments, code=3).stderr
    assert "E0206" in error and "weights differ from" in error and not (tmp_path / "out.onnx").exists()
    report = command.run_json(*arguments, "--allow-different-weights")
    assert report["inferred"] == report["nodes"] > 0  # not matched: other models may have this structure


def test_from_matches_by_weights_without_names(tmp_path):
    folder = export(tmp_path / "model", 0, width=8)
    model = onnx.load(folder / "model.onnx")
    for number, tensor in enumerate(model.graph.initializer):
        for node in model.graph.node:
            node.input[:] = [f"w{number}" if name == tensor.name else name for name in node.input]
        tensor.name = f"w{number}"
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    onnx.save(model, tmp_path / "bare.onnx")
    report = command.run_json("annotate", tmp_path / "bare.onnx", "-o", tmp_path / "out.onnx", "--from",
                              folder / "known.onnx")
    assert report["parameters"]["by_digest"] == report["parameters"]["known"] > 0


@pytest.mark.parametrize("file", ["ort-extended", "renamed+ort-extended"])
def test_from_matches_a_fused_file(file, tmp_path):
    corpus.make(tmp_path, command.BINARY, "gpt_neox", ["torchscript-18"], [file])
    result = score.score_row(command.BINARY, tmp_path / "gpt_neox" / "torchscript-18", BY_NAME[file], "before")
    assert result.total() > 50 and not result.failures


class Untrained(torch.nn.Module):
    """Norms of ones, biases of zeros, random matrices."""

    def __init__(self, blocks: int, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.stem = torch.nn.Conv2d(3, 24, 4, stride=4)
        self.blocks = torch.nn.ModuleList(Block(24) for _ in range(blocks))
        self.head = torch.nn.Linear(24, 7)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                torch.nn.init.normal_(parameter, 0, 0.1)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


IMAGE = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A file with three blocks, its renamed and quantised forms, and references to this model and to other models."""
    folder = tmp_path_factory.mktemp("untrained")
    for name, (blocks, seed) in {"own": (3, 0), "seed": (3, 1), "more": (4, 0), "fewer": (2, 0)}.items():
        model = Untrained(blocks, seed).eval()
        torch.jit.trace(model, IMAGE).save(folder / f"{name}.pt")
        command.run("export", folder / f"{name}.pt", "-o", folder / f"{name}.onnx", "--sidecar-out", folder / f"{name}.json",
                    "--annotate", "--input", "x=float32[2,3,16,16]")
        save_file(model.state_dict(), folder / f"{name}.safetensors")
    torch.onnx.export(Untrained(3, 0).eval(), (IMAGE,), folder / "plain.onnx", dynamo=False, opset_version=17)
    renamed = onnx.load(folder / "plain.onnx")
    rename.rename_everything(renamed)
    onnx.save(renamed, folder / "renamed.onnx")
    quantize_dynamic(folder / "plain.onnx", folder / "int8.onnx")
    quantize_dynamic(folder / "renamed.onnx", folder / "renamed-int8.onnx")
    return folder


SOURCES = {"--sidecar": "{}.json", "--from": "{}.onnx", "--weights": "{}.safetensors"}


@pytest.mark.parametrize("option", SOURCES)
@pytest.mark.parametrize("file", ["plain", "renamed", "int8", "renamed-int8"])
def test_initial_values_do_not_identify_a_model(untrained, file, option, tmp_path):
    for other in ("seed", "more", "fewer"):
        error = command.run("annotate", untrained / f"{file}.onnx", option, untrained / SOURCES[option].format(other), "-o",
                            tmp_path / "out.onnx", code=3).stderr
        assert error.startswith("E0206") and not (tmp_path / "out.onnx").exists()
    report = command.run_json("annotate", untrained / f"{file}.onnx", option, untrained / SOURCES[option].format("own"), "-o",
                              tmp_path / "out.onnx")
    assert report["matched"] + report["exact"] >= 7  # the products


def test_other_weights_are_reported_and_never_matched(untrained, tmp_path):
    arguments = ["annotate", untrained / "int8.onnx", "--sidecar", untrained / "seed.json", "-o", tmp_path / "out.onnx"]
    error = command.run(*arguments, code=3).stderr
    assert "of 8 matrices whose elements can be compared, 0 hold" in error and "structure of" not in error
    report = command.run_json(*arguments, "--allow-different-weights")
    assert report["matched"] == report["exact"] == 0 and report["inferred"] > report["nodes"] / 2


def test_a_finetuned_model_has_other_weights_and_equal_structure(untrained, tmp_path):
    tuned = Untrained(3, 0).eval()
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    torch.onnx.export(tuned, (IMAGE,), tmp_path / "tuned.onnx", dynamo=False, opset_version=17)
    arguments = ["annotate", tmp_path / "tuned.onnx", "--sidecar", untrained / "own.json", "-o", tmp_path / "out.onnx"]
    assert "weights differ from" in command.run(*arguments, code=3).stderr
    report = command.run_json(*arguments, "--allow-different-weights")
    assert report["inferred"] == report["nodes"]


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(24, 32, num_layers=3, batch_first=True)
        self.head = torch.nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Experts(torch.nn.Module):
    """Each parameter contains the weights of four experts. Exporters transpose it."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.ParameterList(torch.randn(4, 48, 24) for _ in range(3))
        self.down = torch.nn.ParameterList(torch.randn(4, 24, 48) for _ in range(3))

    def forward(self, x):
        for up, down in zip(self.up, self.down, strict=True):
            hidden = torch.relu(x.unsqueeze(1) @ up.transpose(1, 2))
            x = x + (hidden @ down.transpose(1, 2)).sum(1)
        return x


class TableOnly(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = torch.nn.Embedding(50, 24), torch.nn.LayerNorm(24)

    def forward(self, tokens):
        return self.norm(self.words(tokens))


def equal_layers():
    """Returns three copies of one layer."""
    layer = torch.nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def int4(source, target):
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


def copy_file(source, target):
    target.write_bytes(source.read_bytes())


SEQUENCE, TOKENS = torch.zeros(2, 9, 24), torch.zeros(2, 9, dtype=torch.long)


@pytest.mark.parametrize("make, x, tool", [
    (Recurrent, SEQUENCE, quantize_dynamic),  # reorders the gates and changes every byte
    (Experts, SEQUENCE, copy_file),
    (Experts, SEQUENCE, quantize_dynamic),
    (equal_layers, SEQUENCE, int4),
    (lambda: torch.nn.Linear(24, 40), SEQUENCE, copy_file),
    (lambda: torch.nn.Linear(24, 40), SEQUENCE, quantize_dynamic),
    (TableOnly, TOKENS, copy_file),
], ids=["lstm-int8", "experts", "experts-int8", "equal-int4", "linear", "linear-int8", "table"])
def test_transformed_weights_identify_the_model(make, x, tool, tmp_path):
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = make().eval()
        with whence.record(tmp_path / f"{seed}.json"):
            torch.export.export(model, (x,))
        save_file({name: value.clone() for name, value in model.state_dict().items()}, tmp_path / f"{seed}.safetensors")
        torch.onnx.export(model, (x,), tmp_path / f"plain{seed}.onnx", dynamo=False, opset_version=17)
        command.run("annotate", tmp_path / f"plain{seed}.onnx", "--sidecar", tmp_path / f"{seed}.json", "-o",
                    tmp_path / f"{seed}.onnx")
    tool(tmp_path / "plain0.onnx", tmp_path / "tool.onnx")
    renamed = onnx.load(tmp_path / "tool.onnx")
    rename.rename_everything(renamed)
    onnx.save(renamed, tmp_path / "file.onnx")
    arguments = ["annotate", tmp_path / "file.onnx", "-o", tmp_path / "out.onnx"]
    for option, name in SOURCES.items():
        error = command.run(*arguments, option, tmp_path / name.format(1), code=3).stderr
        assert error.startswith("E0206") and not (tmp_path / "out.onnx").exists()
    for option, name in SOURCES.items():
        report = command.run_json(*arguments, option, tmp_path / name.format(0), "--overwrite")
        assert option == "--weights" or report["matched"] > 0


class SixModels(torch.nn.Module):
    """The recorded model and five models with different weights."""

    def __init__(self):
        super().__init__()
        self.models = torch.nn.ModuleList(Untrained(3, seed).eval() for seed in range(6))

    def forward(self, x):
        return torch.stack([model(x) for model in self.models])


def test_the_recorded_model_is_found_among_similar_models(untrained, tmp_path):
    torch.onnx.export(SixModels().eval(), (IMAGE,), tmp_path / "six.onnx", dynamo=False, opset_version=17)
    quantize_dynamic(tmp_path / "six.onnx", tmp_path / "int8.onnx")
    for file in ("six", "int8"):
        report = command.run_json("annotate", tmp_path / f"{file}.onnx", "--sidecar", untrained / "own.json", "-o",
                                  tmp_path / "out.onnx", "--overwrite")
        assert 0 < report["matched"] < report["nodes"] / 6  # only nodes of the recorded model
