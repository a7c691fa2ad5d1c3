"""Tests that archives are refused before LibTorch reads them if its unpickler would use unbounded memory or time, or
read out of bounds. mutate_archives.py searches for further cases."""

import resource
import struct
import subprocess
import zipfile

import pytest
import torch

import command
from cli.test_crashes import with_members
from cli.test_errors import refused


def long_number(number: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", number)


def tensor(elements: int, offset: int, sizes: tuple, strides: tuple) -> bytes:
    """Pickles a tensor with record 0, of 128 bytes, as its storage."""
    def numbers(values):
        return b"(" + b"".join(map(long_number, values)) + b"t"

    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu" + long_number(elements) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + long_number(offset) + numbers(sizes) + numbers(strides)
            + b"\x89ccollections\nOrderedDict\n)RtR")


def pickle(body: bytes) -> bytes:
    return b"\x80\2" + body + b"."


PICKLES = {
    "a memo index far too large": pickle(b")r\xff\xff\xff\xff"),
    "a memo index after a gap": pickle(b")q\2"),
    "a memo index that is not set": pickle(b"h\7"),
    "a string of 4 GiB": pickle(b"X\xff\xff\xff\xffabc"),
    "a list that contains itself": pickle(b"]q\0(h\0e"),
    "a dict that contains itself": pickle(b"}q\0(K\1h\0u"),
    "a list with a dict that contains it": pickle(b"]q\0(}q\1(K\1h\0ue"),
    "a key without a value": pickle(b"}(K\1u"),
    "nested tuples": pickle(b"(" * 3000 + b"t" * 3000),
    "tuples that double": pickle(b"K\1q\0" + b"".join(b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))),
    "a storage larger than its record": pickle(tensor(33, 0, (33,), (1,))),
    "a storage of negative size": pickle(tensor(-1, 0, (1,), (1,))),
    "a tensor beyond its storage": pickle(tensor(32, 30, (3,), (1,))),
    "strides beyond the storage": pickle(tensor(32, 0, (4, 4), (11, 1))),
    "sizes whose product overflows": pickle(tensor(32, 0, (1 << 32, 1 << 32), (1 << 32, 1))),
    "a tensor before its storage": pickle(tensor(32, -1, (1,), (1,))),
    "a negative size": pickle(tensor(32, 0, (-1,), (1,))),
    "a negative stride": pickle(tensor(32, 5, (2,), (-1,))),
    "more sizes than strides": pickle(tensor(32, 0, (2, 2), (1,))),
    "a call of a number": pickle(b"K\0)R"),
    "a tuple without a mark": pickle(b"t"),
    "two values on the stack": pickle(b"))"),
    "an empty stack": pickle(b""),
    "no end": b"\x80\2)",
    "another protocol": b"\x80\4).",
    "an unknown instruction": pickle(b"\xff"),
}
MEMBERS = ("/data.pkl", "/constants.pkl", "/traced_inputs.pkl", ".debug_pkl")


@pytest.mark.parametrize("name", PICKLES)
def test_invalid_pickles_are_refused(name, small_archive, tmp_path):
    archive = with_members(small_archive, tmp_path / "hostile.pt",
                           lambda member, content: PICKLES[name] if member.endswith("/data.pkl") else content)
    error = refused(["export", archive, "-o", tmp_path / "target"], tmp_path, "E0204")
    assert "data.pkl" in error["message"] and "LibTorch cannot read" in error["message"]


@pytest.mark.parametrize("member", MEMBERS)
def test_every_pickle_that_libtorch_reads_is_checked(member, small_archive, tmp_path):
    hostile = PICKLES["a memo index far too large"]
    archive = with_members(small_archive, tmp_path / "hostile.pt",
                           lambda name, content: hostile if name.endswith(member) else content)
    arguments = [str(command.BINARY), "export", str(archive), "-o", str(tmp_path / "out")]
    limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # noqa: E731
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert done.returncode == 3 and done.stderr.startswith("E0204") and member.strip("/") in done.stderr
    assert "memo" in done.stderr


def test_users_pickles_are_not_checked(small_archive, tmp_path):
    archive = tmp_path / "with_extra.pt"
    archive.write_bytes(small_archive.read_bytes())
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_STORED) as file:
        top = file.namelist()[0].split("/")[0]
        file.writestr(f"{top}/extra/vocabulary.pkl", b"\x80\4\x95 whatever")
    command.run("export", archive, "-o", tmp_path / "out.onnx")


class Everything(torch.nn.Module):
    """Has attributes of every kind that an archive's pickle can contain."""

    table: dict[str, torch.Tensor]
    names: list[str]

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.same = self.first
        self.table = {"a": torch.ones(4), "b": torch.ones(2, 2).t()[0]}
        self.names = ["a", "b"]
        self.large, self.real, self.nothing = 10**12, 1.5, torch.jit.annotate(torch.Tensor | None, None)
        self.pair = (1, (2.0, "z"))
        self.empty, self.scalar, self.expanded = torch.empty(0, 3), torch.tensor(3.0), torch.ones(1).expand(4)
        self.quantized = torch.quantize_per_channel(torch.ones(4, 4), torch.ones(4), torch.zeros(4).long(), 0, torch.qint8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(self.first(x)) + self.table["a"] * self.real + self.scalar + self.expanded


def test_valid_archives_are_read(tmp_path):
    torch.jit.script(Everything().eval()).save(str(tmp_path / "all.pt"))
    command.run("export", tmp_path / "all.pt", "-o", tmp_path / "all.onnx", "--input", "x=float32[2,4]")
