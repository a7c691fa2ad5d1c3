"""Makes unreadable or unsupported files from valid ones."""

import json
import warnings
import zipfile
from pathlib import Path

import torch


def empty(folder: Path, valid: Path) -> Path:
    path = folder / f"empty{valid.suffix}"
    path.write_bytes(b"")
    return path


def truncated(folder: Path, valid: Path) -> Path:
    path = folder / f"truncated{valid.suffix}"
    path.write_bytes(valid.read_bytes()[: valid.stat().st_size // 2])
    return path


def text(folder: Path, valid: Path) -> Path:
    path = folder / f"text{valid.suffix}"
    path.write_text("this is a note about a model, not a model\n" * 20)
    return path


def plain_zip(folder: Path, valid: Path) -> Path:
    path = folder / f"plain_zip{valid.suffix}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "not a model")
    return path


def state_dict(folder: Path, valid: Path) -> Path:
    """Saves weights without a model with torch.save, the most common mistake."""
    path = folder / "state_dict.pt"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    return path


def corrupt_archive(folder: Path, valid: Path) -> Path:
    """Overwrites bytes of the archive's code; the zip's directory stays intact."""
    path = folder / "corrupt.pt"
    content = bytearray(valid.read_bytes())
    with zipfile.ZipFile(valid) as archive:
        code = next(member for member in archive.infolist() if "/code/" in member.filename and ".py" in member.filename)
    middle = code.header_offset + 30 + len(code.filename) + code.compress_size // 2
    content[middle : middle + 16] = b"\xff" * 16
    path.write_bytes(content)
    return path


def corrupt_onnx(folder: Path, valid: Path) -> Path:
    """Makes the length of a node's operator type exceed the node."""
    path = folder / "corrupt.onnx"
    content = bytearray(valid.read_bytes())
    at = content.find(b"\x22\x04Gemm")  # NodeProto.op_type, field 4, 4 bytes long
    assert at > 0
    content[at + 1] = 0x7F
    path.write_bytes(content)
    return path


def newer_sidecar(folder: Path, valid: Path) -> Path:
    path = folder / "newer.whence.json"
    path.write_text(json.dumps({**json.loads(valid.read_text()), "version": "99.0"}))
    return path


def saves_files(folder: Path, valid: Path) -> Path:
    """Saves a scripted module that writes a file when it runs."""

    class Saves(torch.nn.Module):
        def forward(self, x):
            torch.save(x, "written_by_the_model")
            return x + 1

    path = folder / "saves.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Saves()).save(str(path))
    return path


def unknown_operator(folder: Path, valid: Path) -> Path:
    """Saves a model whose submodule is called twice and runs an operator without an ONNX equivalent."""

    class Solver(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x @ x.t())

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.solver = Solver()

        def forward(self, x):
            return self.solver(x) + self.solver(x * 2)

    path = folder / "unknown_operator.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Model(), torch.randn(3, 3)).save(str(path))
    return path
