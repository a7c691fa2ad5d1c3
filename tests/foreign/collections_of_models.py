"""ONNX files from other projects on the machine: the backend tests in onnx's PyPI package, and Debian's test data.

They cover every operator in most of its forms, functions, subgraphs, sequences, strings, sparse tensors, models without
nodes, opsets from 1 to today's, and small converted networks. Equal files are used once.
"""

import functools
import hashlib
from pathlib import Path

import onnx

PLACES = {
    "onnx": Path(onnx.__file__).parent / "backend" / "test" / "data",
    "debian": Path("/usr/share/libonnx-testdata/data"),  # package libonnx-testdata
}
BATCH = 150


@functools.cache
def models(place: str) -> list[Path]:
    first = {}
    for path in sorted(PLACES[place].rglob("*.onnx")):
        first.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
    return list(first.values())


def batches() -> list[tuple[str, int]]:
    """Returns (place, index of the first model) for each test; small enough to distribute over the cores."""
    return [(place, start) for place in PLACES for start in range(0, max(1, len(models(place))), BATCH)]


def batch(place: str, start: int) -> list[Path]:
    found = models(place)[start:start + BATCH]
    assert found, f"no models in {PLACES[place]}: `make build` installs them"
    return found
