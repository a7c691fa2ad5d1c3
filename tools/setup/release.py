"""Makes the files of a release except the wheels. The archives are reproducible.

    release.py FOLDER SDK ARCHITECTURE=BUILD...    SDK: an installation with headers and libraries; BUILD: a folder with static/whence

Writes into FOLDER: the sdist, an archive of the static command for each processor with its bill of materials, the C++ SDK, and
SHA256SUMS of all files. The time of files is $SOURCE_DATE_EPOCH.
"""

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import linked
import wheel

LEFT_OUT = ("tests/", "samples/", ".ci/", ".github/")  # not in the sdist, because no build reads them


def pack(path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """Writes a .tar.gz of files with their modes, in one folder named like the archive."""
    top = path.name.removesuffix(".tar.gz")
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", wheel.EARLIEST))
    with open(path, "wb") as target, gzip.GzipFile(filename="", fileobj=target, mode="wb", compresslevel=9, mtime=moment) as stream, \
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, moment
            archive.addfile(entry, io.BytesIO(data))


def read(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644


def sdist(folder: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=wheel.ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(LEFT_OUT)]
    project = wheel.project()
    text = wheel.metadata(project["name"], project["description"], [], project["optional-dependencies"],
                          (wheel.ROOT / project["readme"]).read_text())
    pack(folder / f"{project['name'].replace('-', '_')}-{wheel.version()}.tar.gz",
         {name: read(wheel.ROOT / name) for name in names} | {"PKG-INFO": (text.encode(), 0o644)})


def command(folder: Path, architecture: str, build: Path) -> None:
    """Writes whence-VERSION-linux-ARCHITECTURE.tar.gz: the command, JSON Schemas, licences and bill of materials."""
    binary, name = build / "static" / "whence", wheel.project()["name"]
    bill = linked.bill(build, name, wheel.version(), binary)
    files = {"bin/whence": read(binary), "LICENSE": read(wheel.ROOT / "LICENSE"),
             wheel.THIRD_PARTY: (linked.third_party(build).encode(), 0o644), "whence.cdx.json": (bill.encode(), 0o644)}
    files |= {f"share/whence/{path.name}": read(path) for path in (wheel.ROOT / "schema").glob("*.schema.json")}
    stem = f"whence-{wheel.version()}-linux-{architecture}"
    pack(folder / f"{stem}.tar.gz", files)
    (folder / f"{stem}.cdx.json").write_text(bill)


def without_builds_torch(text: bytes) -> bytes:
    """Returns whenceConfig.cmake without the default folder of LibTorch, which exists only on this machine."""
    return re.sub(rb'(set\(whence_torch_folder )"[^"]*"', rb'\1""', text, count=1)


def sdk(folder: Path, installed: Path, build: Path) -> None:
    """Writes whence-sdk-VERSION-linux-x86_64.tar.gz: the files that `make install` installs, with all licences."""
    files = {str(path.relative_to(installed)): read(path) for path in installed.rglob("*") if path.is_file()}
    config = "lib/cmake/whence/whenceConfig.cmake"
    files[config] = without_builds_torch(files[config][0]), 0o644
    pack(folder / f"whence-sdk-{wheel.version()}-linux-{os.uname().machine}.tar.gz",
         files | {"LICENSE": read(wheel.ROOT / "LICENSE"), wheel.THIRD_PARTY: (linked.third_party(build).encode(), 0o644)})


def sums(folder: Path) -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
             for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main(folder: Path, installed: Path, builds: dict[str, Path]) -> None:
    sdist(folder)
    for architecture, build in builds.items():
        command(folder, architecture, build)
    sdk(folder, installed, builds[os.uname().machine])
    sums(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), {name: Path(build) for name, build in (word.split("=", 1) for word in sys.argv[3:])})
