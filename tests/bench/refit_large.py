"""Compares `whence refit` of a large int8 file with exporting and quantising the new model.

    python tests/bench/refit_large.py [--gigabytes 0.4] [--runs 5] [--folder FOLDER]

The model is a chain of linear layers, quantised by ONNX Runtime (int8, dynamic); its checkpoints have float32 numbers, four
times the file's size. The peer is one process: PyTorch's exporter (dynamo), then ONNX Runtime's quantiser. Prints the CPU
and wall time and the peak of memory, medians of alternating runs (the peer runs once above 1 GB), and their ratios. The
exit code is 1 if a refitted file differs from the peer's.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.measured import Cost, measure

WIDTH = 4096

MODEL = """
import sys, torch, whence
from safetensors.torch import load_file, save_file
folder, layers, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(%d, %d) for _ in range(layers))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x
inputs = (torch.ones(1, %d),)
""" % (WIDTH, WIDTH, WIDTH)

SAVE = MODEL + """
torch.manual_seed(seed)
model = Model().eval()
save_file(model.state_dict(), f"{folder}/{seed}.safetensors")
if seed == 0:
    with whence.record(f"{folder}/model.whence.json"):
        torch.export.export(model, inputs)
"""

EXPORT = MODEL + """
import onnx
from onnxruntime.quantization import quantize_dynamic
with torch.device("meta"):
    model = Model().eval()
model.load_state_dict(load_file(f"{folder}/{seed}.safetensors"), assign=True)
torch.onnx.export(model, inputs, f"{folder}/{seed}.onnx", dynamo=True, external_data=True, verbose=False)
del model
quantize_dynamic(f"{folder}/{seed}.onnx", f"{folder}/{seed}.int8.onnx", use_external_data_format=True)
"""


def files_are_equal(one: Path, other: Path) -> bool:
    """Compares the tensors of two files, one at a time."""
    models = [onnx.load(path, load_external_data=False) for path in (one, other)]
    for tensors in zip(*(model.graph.initializer for model in models), strict=True):
        for tensor, path in zip(tensors, (one, other), strict=True):
            if onnx.external_data_helper.uses_external_data(tensor):
                onnx.external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
        if tensors[0].raw_data != tensors[1].raw_data:
            return False
        for tensor in tensors:
            tensor.ClearField("raw_data")
    return True


def row(name: str, costs: list[Cost]) -> str:
    cpu, wall, mib = (statistics.median(values) for values in zip(*costs, strict=True))
    return f"| {name} | {cpu:.1f} | {wall:.1f} | {mib:.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.4, help="of the int8 file")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="for five times the checkpoint; a temporary one by default")
    options = parser.parse_args()
    layers = max(1, round(options.gigabytes * 1e9 / WIDTH**2))
    with tempfile.TemporaryDirectory(prefix="whence-refit-", dir=options.folder) as name:
        folder = Path(name)
        python = [sys.executable, "-W", "ignore", "-c"]
        for seed in (0, 1):
            measure([*python, SAVE, folder, layers, seed])
        measure([*python, EXPORT, folder, layers, 0])
        (folder / "0.onnx.data").unlink()
        shipped, sidecar = folder / "0.int8.onnx", folder / "model.whence.json"
        statement = folder / "statement.json"
        attested = measure([command.BINARY, "attest", shipped, "--weights", folder / "0.safetensors", "--sidecar", sidecar,
                            "-o", statement])
        refit = [command.BINARY, "refit", shipped, "--weights", folder / "1.safetensors", "--sidecar", sidecar,
                 "-o", folder / "refitted.onnx"]
        costs: dict[str, list[Cost]] = {"peer": [], "refit": [], "refit --statement": []}
        for run in range(options.runs):
            if run == 0 or options.gigabytes <= 1:
                for file in folder.glob("1.*onnx*"):
                    file.unlink()
                costs["peer"].append(measure([*python, EXPORT, folder, layers, 1]))
            for kind, source in (("refit", ["--base", folder / "0.safetensors"]), ("refit --statement", ["--statement", statement])):
                for file in folder.glob("refitted*"):
                    file.unlink()
                costs[kind].append(measure([*refit, *source]))
        print(f"{shipped.stat().st_size / 1e9 + sum(f.stat().st_size for f in folder.glob('0.int8.onnx.*')) / 1e9:.2f} GB int8, "
              f"{layers} layers\n\n| | CPU s | wall s | MiB |\n|---|--:|--:|--:|")
        print(row("attest", [attested]))
        for kind, measured in costs.items():
            print(row(kind, measured))
        for kind in ("refit", "refit --statement"):
            cpu, wall = (statistics.median(getattr(each, field) for each in costs["peer"]) /
                         statistics.median(getattr(each, field) for each in costs[kind]) for field in ("cpu", "wall"))
            print(f"{kind}: {cpu:.1f} times less CPU, {wall:.1f} times less wall time")
        return 0 if files_are_equal(folder / "1.int8.onnx", folder / "refitted.onnx") else 1


if __name__ == "__main__":
    sys.exit(main())
