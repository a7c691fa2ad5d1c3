"""ONNX files from other projects: the backend tests in onnx's PyPI package, and Debian's test data.

They cover every operator in most of its forms, functions, subgraphs, sequences, strings, sparse tensors, models without
nodes, all opsets, and small converted networks. Equal files are used once.
"""

import functools
import hashlib
from pathlib import Path

import onnx

COLLECTIONS = {
    "onnx": Path(onnx.__file__).parent / "backend" / "test" / "data",
    "debian": Path("/usr/share/libonnx-testdata/data"),  # package libonnx-testdata
}
BATCH = 150


@functools.cache
def models(collection: str) -> list[Path]:
    first = {}
    for path in sorted(COLLECTIONS[collection].rglob("*.onnx")):
        first.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
    return list(first.values())


def batches() -> list[tuple[str, int]]:
    """Returns (collection, index of the first model) for batches that are small enough to spread over the cores."""
    return [(collection, start) for collection in COLLECTIONS
            for start in range(0, max(1, len(models(collection))), BATCH)]


def batch(collection: str, start: int) -> list[Path]:
    found = models(collection)[start:start + BATCH]
    assert found, f"no models in {COLLECTIONS[collection]}: `make build` installs them"
    return found
