"""Compares the parameter digests of a sidecar with the system's xxHash of PyTorch's bytes."""

import ctypes
import ctypes.util
import functools

import pytest
import torch

import command
from models import zoo
from record.test_record_modules import model
from record.test_record_scopes import recorded
from sidecar import Sidecar


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@functools.cache
def xxhash_library() -> ctypes.CDLL:
    library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library


def xxh3_128(tensor: torch.Tensor) -> str:
    """Returns the digest of the contiguous bytes by the system's xxHash library, in one call."""
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()  # NumPy lacks bfloat16
    digest = xxhash_library().XXH3_128bits(content, len(content))
    return f"{digest.high:016x}{digest.low:016x}"


def check(row: dict, tensor: torch.Tensor) -> None:
    assert row["digest"] == xxh3_128(tensor), row["name"]
    if tensor.ndim == 2:
        assert row["digest_transposed"] == xxh3_128(tensor.t()), row["name"]
    if tensor.dtype in (torch.float32, torch.float64):
        assert row["digest_float16"] == xxh3_128(tensor.half()), row["name"]
        assert row["digest_bfloat16"] == xxh3_128(tensor.bfloat16()), row["name"]


@pytest.mark.parametrize("name", zoo.MODELS)
def test_digests_equal_xxhash(name):
    rows = {row["name"]: row for row in recorded(name).table("parameters")}
    for path, tensor in [*model(name).named_parameters(), *model(name).named_buffers()]:
        if path in rows:
            check(rows[path], tensor)
        else:  # the archive lacks buffers that the trace does not use
            assert path not in dict(model(name).named_parameters())


class EveryKindOfNumber(torch.nn.Module):
    """Weights of all magnitudes and element widths, with shapes that are not multiples of any block size."""

    def __init__(self):
        super().__init__()
        bits = torch.randint(-2**31, 2**31, (1031, 67), generator=torch.Generator().manual_seed(0)).to(torch.int32)
        floats = bits.view(torch.float32)
        floats[floats.isnan()] = 1.0  # NaN has many encodings; whence writes one of them
        edges = [0.0, -0.0, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 2.0**-14, 2.0**-14 * 0.9999, 65504.0, 65519.99,
                 65520.0, -65520.0, float("inf"), -float("inf"), 1 + 2.0**-11, 1 + 3 * 2.0**-11, 3.4e38, 1e-45]
        floats[0, :len(edges)] = torch.tensor(edges)
        near = torch.randn(501, 333, generator=torch.Generator().manual_seed(1)) * 1e-5  # subnormal in float16
        self.all, self.small = torch.nn.Parameter(floats), torch.nn.Parameter(near)
        self.wide = torch.nn.Parameter(near.double())
        self.register_buffer("narrow", near.half())
        self.register_buffer("octets", (near * 1e6).to(torch.int8))
        self.register_buffer("pairs", torch.complex(near, -near))

    def forward(self, x):
        y = x + self.all.sum() + self.small.sum() + self.wide.sum() + self.narrow.sum() + self.octets.sum()
        return y + self.pairs.real.sum()


def test_digests_of_every_kind_of_number(tmp_path):
    module, x = EveryKindOfNumber(), torch.ones(2)
    torch.jit.trace(module, x, check_trace=False).save(str(tmp_path / "m.pt"))
    command.run("record", tmp_path / "m.pt", "-o", tmp_path / "m.json")
    rows = {row["name"]: row for row in Sidecar(tmp_path / "m.json").table("parameters")}
    for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if path in rows:
            check(rows[path], tensor)
    assert {"all", "small", "wide"} <= rows.keys()
