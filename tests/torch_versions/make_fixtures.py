"""Writes fixtures/VERSION/ with the running PyTorch: files as users of that version have them.

    ln -sfn $PWD/build/torch-2.15.0/venv $PWD/tests/torch_versions /opt/whence-fixtures/
    /opt/whence-fixtures/venv/bin/python /opt/whence-fixtures/torch_versions/make_fixtures.py

Run it after `make test-torch VERSION=2.15.0`, whose recorder (or $WHENCE_PLUGIN) records the sidecar during the trace.
Run it from this path, because archives store source paths, which must not depend on the machine. A folder is written
once and never changed, because whence must always read the files of that version. cases.json has inputs other than the
example inputs, with PyTorch's outputs.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent / "fixtures"
PLUGIN = os.environ.get("WHENCE_PLUGIN", Path(sys.prefix).parent / "build" / "lib" / "libwhence_recorder.so")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.linear(self.norm(x)))


class Model(torch.nn.Module):
    """x: float32[n, 6, 4] -> float32[n, 2]. A convolution, a block that is called twice, and a size read by Python."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(6, 3, 1)
        self.block = Block()
        self.head = torch.nn.Linear(12, 2)

    def forward(self, x):
        x = self.block(self.block(self.conv(x)))
        return self.head(x.reshape(x.shape[0], 12))


def write_cases(model: torch.nn.Module, path: Path) -> None:
    """Writes PyTorch's results at the size of the archives, and at another size."""
    cases = []
    for size in (3, 5):
        x = torch.randn(size, 6, 4)
        cases.append({"x": x.tolist(), "output": model(x).tolist()})
    path.write_text(json.dumps(cases))


def write_archives(model: torch.nn.Module, x: torch.Tensor, folder: Path) -> None:
    torch.ops.load_library(str(PLUGIN))
    torch.ops.whence.start(str(folder / "recorded.whence.json"))
    traced = torch.jit.trace(model, x, check_trace=False)
    torch.ops.whence.stop()
    traced.save(str(folder / "traced.pt"))
    torch.jit.script(model).save(str(folder / "scripted.pt"))
    torch.export.save(torch.export.export(model, (x,)), folder / "static.pt2")
    batch = torch.export.Dim("batch", min=1, max=64)
    dynamic = torch.export.export(model, (x,), dynamic_shapes={"x": {0: batch}})
    torch.export.save(dynamic, folder / "dynamic.pt2")
    torch.onnx.export(dynamic, (x,), str(folder / "dynamo.onnx"), dynamo=True, external_data=False, verbose=False)


def main() -> None:
    folder = FOLDER / torch.__version__.partition("+")[0]
    folder.mkdir(parents=True)
    os.chdir(FOLDER.parent)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(3, 6, 4)
    with torch.no_grad():
        write_archives(model, x, folder)
        write_cases(model, folder / "cases.json")
    for path in sorted(folder.iterdir()):
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
