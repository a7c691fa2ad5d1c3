"""Compares the cost of `whence` with PyTorch's exporters, and with a lower bound (the floor).

    python tests/bench/side_by_side.py [--runs 5] [--peer-runs 3] [--only 'ResNet-50 .pt2'] [--folder /dev/shm]

Prints medians of the CPU time (user and system) and the peak resident memory of complete processes, which alternate.
The floor of each row:

        .pt       floor.cpp, which loads LibTorch and the archive and runs the model once; plus `cp` of the archive
        .pt2      `cp` of the archive, which consists of its weights and some JSON
        annotate  `cp` of the ONNX file; also for strip

If a floor has two processes, their CPU times are added, and the larger peak counts. Peers on the same file:
`torch.jit.load` and `torch.onnx.export(dynamo=False)`, `torch.export.load` and `torch.onnx.export(dynamo=True)`,
load-edit-save with Python's onnx. If a peer fails, its row shows the error. Exits with 1 if whence fails or misses an
aim.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from bench.measured import Cost, measure

PYTHON = [sys.executable, "-W", "ignore", "-c"]

TORCHSCRIPT_EXPORT = """
import sys, torch
archive, inputs, output = sys.argv[1:]
torch.onnx.export(torch.jit.load(archive), tuple(torch.load(inputs).values()), output, dynamo=False, opset_version=18)
"""

DYNAMO_EXPORT = """
import sys, torch
archive, output = sys.argv[1:]
torch.onnx.export(torch.export.load(archive), dynamo=True, f=output, opset_version=18, verbose=False)
"""

ONNX_ANNOTATE = """
import sys, onnx
model = onnx.load(sys.argv[1])
for node in model.graph.node:
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.whence.module", node.name
onnx.save(model, sys.argv[2])
"""

ONNX_STRIP = """
import sys, onnx
model = onnx.load(sys.argv[1])
for node in model.graph.node:
    del node.metadata_props[:]
onnx.save(model, sys.argv[2])
"""


class Row(NamedTuple):
    """One row of the table: its processes, the minimum ratios to the peer, and the maximum ratio to the floor."""

    name: str
    whence: list
    floor: list            # processes, each a list of arguments
    peer: list
    cpu_aim: float         # minimum ratio of the peer's CPU time to whence's
    memory_aim: float      # the same for peak memory
    floor_aim: float | None = None  # maximum ratio of whence's CPU time to the floor's


def clip():
    """CLIP's two towers with random weights, 200 MB, and inputs."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    class Embeddings(torch.nn.Module):
        """CLIP that returns tensors, because torch.export.load would need the class of its result."""

        def __init__(self):
            super().__init__()
            tower = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8}
            config = CLIPConfig(text_config={**tower, "num_hidden_layers": 8, "vocab_size": 16000},
                                vision_config={**tower, "num_hidden_layers": 6}, projection_dim=512)
            self.clip = CLIPModel(config)

        def forward(self, input_ids, pixel_values, attention_mask):
            result = self.clip(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
            return result.logits_per_image, result.text_embeds, result.image_embeds

    torch.manual_seed(0)
    inputs = {"input_ids": torch.randint(3, 15000, (2, 32)), "pixel_values": torch.randn(2, 3, 224, 224),
              "attention_mask": torch.ones(2, 32, dtype=torch.long)}
    return Embeddings().eval(), inputs


def from_zoo(name: str):
    """Returns a model that returns a tuple, as PyTorch's exporters require, and its inputs."""
    from models import zoo

    entry = zoo.MODELS[name]
    model = entry.model()
    if hasattr(model, "config"):
        model.config.return_dict = False
    return model, entry.inputs({**entry.first, "height": 224, "width": 224} if name == "resnet50" else entry.first)


def linear_layers():
    """Fifteen linear layers of 16.8 MB: a file of 250 MB with a small structure."""
    import torch

    layers = [torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU()) for _ in range(15)]
    return torch.nn.Sequential(*layers).eval(), {"input": torch.zeros(1, 2048)}


MODELS = {"BERT-tiny": lambda: from_zoo("bert_tiny"), "ResNet-50": lambda: from_zoo("resnet50"), "CLIP": clip,
          "linear": linear_layers}


def make(name: str, kind: str, folder: Path) -> None:
    """Writes the archive and the inputs."""
    import torch

    from models import zoo

    model, inputs = MODELS[name]()
    if kind == "pt":
        zoo.trace_module(model, inputs).save(str(folder / f"{name}.pt"))
        torch.save(inputs, folder / f"{name}.inputs.pt")
    else:
        torch.export.save(torch.export.export(model, (), inputs, strict=False), folder / f"{name}.pt2")


def make_in_process(name: str, kind: str, folder: Path) -> Path:
    subprocess.run([sys.executable, "-W", "ignore", __file__, "--make", folder, name, kind], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / f"{name}.{kind}"


def build_floor(folder: Path) -> Path:
    """Compiles floor.cpp with the LibTorch of this Python."""
    torch, program = Path(importlib.util.find_spec("torch").origin).parent, folder / "floor"
    libraries = torch / "lib"
    subprocess.run(["g++", "-std=c++20", "-O1", Path(__file__).with_name("floor.cpp"), "-isystem", torch / "include",
                    "-L", libraries, f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10",
                    "-o", program], check=True)
    return program


def rows(folder: Path, chosen: list[str]):
    """Yields each row after creating its files."""
    out, copy = folder / "out.onnx", folder / "copy"
    for name, kind in (("BERT-tiny", "pt"), ("BERT-tiny", "pt2"), ("ResNet-50", "pt"), ("ResNet-50", "pt2"),
                       ("CLIP", "pt2")):
        if chosen and f"{name} .{kind}" not in chosen:
            continue
        archive = make_in_process(name, kind, folder)
        export, cp = [command.BINARY, "export", archive, "-o", out], ["cp", archive, copy]
        if kind == "pt":
            inputs = folder / f"{name}.inputs.pt"
            program = folder / "floor" if (folder / "floor").exists() else build_floor(folder)
            yield Row(f"{name} .pt", [*export, "--inputs", inputs], [[program, archive, inputs], cp],
                      [*PYTHON, TORCHSCRIPT_EXPORT, archive, inputs, out], 5, 2)
        else:
            yield Row(f"{name} .pt2", export, [cp], [*PYTHON, DYNAMO_EXPORT, archive, out], 40, 4)
        archive.unlink()
    if chosen and not {"annotate", "strip"} & set(chosen):
        return
    archive = make_in_process("linear", "pt", folder)
    model, sidecar, annotated = (folder / f"linear.{end}" for end in ("onnx", "whence.json", "annotated.onnx"))
    measure([command.BINARY, "export", archive, "-o", model, "--sidecar-out", sidecar])
    annotate = [command.BINARY, "annotate", model, "--sidecar", sidecar, "-o"]
    measure([*annotate, annotated])
    yield Row("annotate", [*annotate, out], [["cp", model, copy]], [*PYTHON, ONNX_ANNOTATE, model, out], 2, 4, 1.5)
    yield Row("strip", [command.BINARY, "strip", annotated, "-o", out], [["cp", annotated, copy]],
              [*PYTHON, ONNX_STRIP, annotated, out], 2, 4, 1.5)


def median(costs: list[Cost]) -> Cost:
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def compare(row: Row, runs: int, peer_runs: int, folder: Path) -> bool:
    """Prints the row. Returns true if whence ran and met every aim."""
    whence_costs, floors, peers, peer_error = [], [], [], ""
    for i in range(max(runs, peer_runs)):
        # Removes the outputs, because a process that overwrites a file is charged for freeing its pages.
        for old in [*folder.glob("out.onnx*"), *folder.glob("copy")]:
            old.unlink()
        try:
            if i < runs:
                parts = [measure(arguments) for arguments in row.floor]
                floors.append(Cost(sum(p.cpu for p in parts), sum(p.wall for p in parts), max(p.mib for p in parts)))
                whence_costs.append(measure(row.whence))
        except RuntimeError as error:
            print(f"{row.name:15} whence or its floor failed: {error}", flush=True)
            return False
        for old in folder.glob("out.onnx*"):
            old.unlink()
        try:
            if i < peer_runs and not peer_error:
                peers.append(measure(row.peer))
        except RuntimeError as error:
            peer_error = str(error).strip().splitlines()[-1]
    whence, floor = median(whence_costs), median(floors)
    line = (f"{row.name:15} {whence.cpu:8.3f} {whence.mib:7.0f} | {floor.cpu:8.3f} {floor.mib:7.0f} "
            f"{whence.cpu / floor.cpu:7.2f} | ")
    if peer_error:
        print(line + f"failed: {peer_error}", flush=True)
        return row.floor_aim is None or whence.cpu <= row.floor_aim * floor.cpu
    peer = median(peers)
    cpu_ratio, memory_ratio = peer.cpu / whence.cpu, peer.mib / whence.mib
    print(line + f"{peer.cpu:8.3f} {peer.mib:7.0f} {cpu_ratio:7.1f} {memory_ratio:7.1f}", flush=True)
    return (cpu_ratio >= row.cpu_aim and memory_ratio >= row.memory_aim
            and (row.floor_aim is None or whence.cpu <= row.floor_aim * floor.cpu))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-runs", type=int, default=3, help="number of runs of a peer; some take a minute")
    parser.add_argument("--only", nargs="*", default=[], help="run only these rows")
    parser.add_argument("--folder", help="working folder; the default is the system's temporary folder")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make[1], options.make[2], Path(options.make[0]))
        return 0
    print(f"{'':15} {'whence':^16} | {'floor':^24} | {'peer':^32}")
    print(f"{'':15} {'CPU s':>8} {'MiB':>7} | {'CPU s':>8} {'MiB':>7} {'whence/':>7} | {'CPU s':>8} {'MiB':>7} "
          f"{'CPU x':>7} {'MiB x':>7}", flush=True)
    with tempfile.TemporaryDirectory(prefix="whence-bench-", dir=options.folder) as name:
        met = [compare(row, options.runs, options.peer_runs, Path(name)) for row in rows(Path(name), options.only)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
