"""Damages records of TorchScript archives, keeps the zip checksums valid, and exports each archive. The command must
end with a result or with its own error, within limits of time and memory.

    python tests/cli/mutate_archives.py --count 1000 --seed 0 --keep findings small.pt

Prints a line for each finding (a defect, a crash of LibTorch, a run over a limit) and the number of runs with each
code. --keep stores the archives of findings.
"""

import argparse
import collections
import io
import itertools
import os
import pickletools
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import command
from command_server.client import CommandServer

NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1)
WORDS = (b"None", b"True", b"-1", b"0", b"9223372036854775807", b"1.0e400", b"[]", b"()", b"self", b"annotate(int, 3)",
         b"torch.relu(x)", b"Tensor", b"Optional[Tensor]", b"List[List[int]]", b"Dict[str, Tensor]", b"__torch__", b"if",
         b"return", b"while True:\n  ", b"(", b")", b"]", b"\n", b"  ", b"CONSTANTS.c0", b"ops.prim.data(x)")


def mutate_bytes(content: bytes, generator: random.Random) -> bytes:
    """Changes, removes or repeats bytes of any record."""
    for _ in range(generator.choice((1, 1, 1, 2, 5))):
        at = generator.randrange(len(content))
        end = min(len(content), at + generator.choice((1, 1, 2, 4, 8, 64)))
        kind = generator.randrange(4)
        middle = (bytes(generator.randrange(256) for _ in range(end - at)), b"", content[at:end] * 2,
                  bytes([content[at] ^ 1 << generator.randrange(8)]) + content[at + 1:end])[kind]
        content = content[:at] + middle + content[end:] or b"\0"
    return content


def mutate_pickle(content: bytes, generator: random.Random) -> bytes:
    """Changes the argument of one pickle instruction, removes or repeats it, or swaps it with another one."""
    try:
        starts = [at for _, _, at in pickletools.genops(content)]
    except Exception:  # noqa: BLE001: pickletools raises many classes
        return mutate_bytes(content, generator)
    pieces = [content[start:end] for start, end in itertools.pairwise([*starts, len(content)])]
    at = generator.randrange(1, max(2, len(pieces) - 1))
    piece = pieces[at]
    kind = generator.randrange(6)
    if kind <= 2 and len(piece) > 1:
        pieces[at] = with_number(piece, generator)
    elif kind == 3:
        pieces[at] = b""
    elif kind == 4:
        pieces[at] = piece * generator.choice((2, 2, 3, 1000))
    else:
        other = generator.randrange(1, len(pieces))
        pieces[at], pieces[other] = pieces[other], pieces[at]
    return b"".join(pieces)


def with_number(piece: bytes, generator: random.Random) -> bytes:
    opcode, number = piece[:1], generator.choice(NUMBERS)
    if opcode in b"qhK":
        if generator.random() < 0.5:  # the long form of the opcode
            return {b"q": b"r", b"h": b"j", b"K": b"J"}[opcode] + struct.pack("<I", number)
        return opcode + bytes([number & 255])
    if opcode in b"rjJX":
        return opcode + struct.pack("<I", number) + piece[5:]
    if opcode == b"M":
        return opcode + struct.pack("<H", number & 65535)
    if opcode == b"\x8a":
        return b"\x8a\x08" + struct.pack("<q", generator.choice((-1, 1 << 40, (1 << 63) - 1, -(1 << 63), number)))
    return mutate_bytes(piece, generator)


def mutate_code(content: bytes, generator: random.Random) -> bytes:
    """Replaces, removes, repeats or brackets one word of a program's text, or swaps or repeats lines."""
    words = re.split(rb"(\W)", content)
    at = generator.randrange(len(words))
    kind = generator.randrange(6)
    if kind == 0:
        words[at] = generator.choice(WORDS)
    elif kind == 1:
        words[at] = b""
    elif kind == 2:
        words[at] = words[generator.randrange(len(words))]
    elif kind == 3:
        words[at] *= generator.choice((2, 100))
    elif kind == 4:
        depth = generator.choice((5, 50, 500))
        words[at] = b"(" * depth + words[at] + b")" * depth
    else:
        lines = content.split(b"\n")
        line, other = generator.randrange(len(lines)), generator.randrange(len(lines))
        lines[line], lines[other] = lines[other], lines[line] if generator.random() < 0.5 else lines[other]
        return b"\n".join(lines)
    return b"".join(words)


def mutate(archive: zipfile.ZipFile, target: Path, generator: random.Random) -> str:
    """Writes the archive with one damaged record. Returns the record's name and the kind of damage."""
    names = [name for name in archive.namelist() if archive.getinfo(name).file_size
             and (name.endswith((".py", "pkl")) or generator.random() < 0.05)]
    record = generator.choice(names)
    content = archive.read(record)
    special = mutate_code if record.endswith(".py") else mutate_pickle if record.endswith("pkl") else mutate_bytes
    damage = special if generator.random() < 0.75 else mutate_bytes
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name in archive.namelist():
            copy.writestr(name, damage(content, generator) if name == record else archive.read(name))
    return f"{record} by {damage.__name__}"


def outcome(server: CommandServer, archive: Path, folder: Path, seconds: float) -> tuple[str, str]:
    """Exports the archive. Returns `ok`, an error code or a finding, and the standard error."""
    words = [str(command.BINARY), "export", str(archive), "-o", str(folder / "out.onnx")]
    try:
        done = server.run(words, dict(os.environ), seconds)
    except subprocess.TimeoutExpired:
        return "FINDING too long", ""
    code = (re.search(r"^E\d{4}", done.stderr, re.MULTILINE) or ["no code"])[0]
    if done.returncode < 0 or done.returncode == command.BUG or code in ("E0901", "E0208"):
        return f"FINDING {code} exit {done.returncode}", done.stderr
    if "out of memory" in done.stderr or "bad_alloc" in done.stderr or "can't allocate" in done.stderr:
        return "FINDING too large", done.stderr
    if done.returncode != 0 and (code == "no code" or (folder / "out.onnx").exists()):
        return f"FINDING exit {done.returncode} without an error", done.stderr
    return "ok" if done.returncode == 0 else code, done.stderr


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("archives", nargs="+", type=Path)
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--seconds", type=float, default=60, help="time limit of one run")
    arguments.add_argument("--memory", type=int, default=6, help="GiB of memory for one run")
    arguments.add_argument("--keep", type=Path, help="folder for the archives of findings")
    options = arguments.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (options.memory << 30, options.memory << 30))
    archives = [zipfile.ZipFile(io.BytesIO(path.read_bytes())) for path in options.archives]
    server, counts = CommandServer(command.SERVER), collections.Counter()
    for number in range(options.seed, options.seed + options.count):
        generator = random.Random(number)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "damaged.pt"
            index = generator.randrange(len(archives))
            damage = mutate(archives[index], path, generator)
            result, errors = outcome(server, path, Path(folder), options.seconds)
            counts[result] += 1
            if result.startswith("FINDING"):
                print(f"{number} {options.archives[index].name} {damage}: {result} {errors.strip()[:300]}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{number}.pt").write_bytes(path.read_bytes())
    print(*(f"{count:6} {name}" for name, count in counts.most_common()), sep="\n")
    return int(any(name.startswith("FINDING") for name in counts))


if __name__ == "__main__":
    sys.exit(main())
