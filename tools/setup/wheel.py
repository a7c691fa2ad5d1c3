"""Makes the wheel whence-onnx of a fully static command and the Python package: one file for every Python and libc.

    wheel.py COMMAND ARCHITECTURE FOLDER      writes FOLDER/whence_onnx-VERSION-py3-none-....whl, prints its path

The metadata is that of pyproject.toml, the version that of CMakeLists.txt. The same inputs give the same bytes; files have
the time $SOURCE_DATE_EPOCH, else the earliest one that a zip can hold.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
EARLIEST = 315_532_800  # 1980, as a zip has it
# A static command needs no libc at all: the oldest that pip knows of each family. A newer system takes those, too; where
# a platform is named, as in `pip download --platform musllinux_1_2_x86_64`, pip compares the words, so the common ones are here.
PLATFORMS = ("manylinux_2_17_{}", "manylinux2014_{}", "musllinux_1_1_{}", "musllinux_1_2_{}")


def version() -> str:
    """CMakeLists.txt is the one place that has it."""
    return re.search(r"project\(whence VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def tags(architecture: str) -> list[str]:
    return [f"py3-none-{platform.format(architecture)}" for platform in PLATFORMS]


def metadata(project: dict) -> str:
    """METADATA of the core metadata's version 2.4."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version()}", f"Summary: {project['description']}",
             f"License-Expression: {project['license']}", *(f"License-File: {name}" for name in project["license-files"]),
             f"Requires-Python: {project['requires-python']}"]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {each}; extra == '{extra}'" for each in requirements]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (ROOT / project["readme"]).read_text()])


def contents(command: Path, architecture: str) -> dict[str, bytes]:
    """The files of the wheel but for RECORD, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = {f"whence/{path.relative_to(ROOT / 'python' / 'whence')}": path.read_bytes()
             for path in (ROOT / "python" / "whence").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    files |= {f"whence/schema/{path.name}": path.read_bytes() for path in (ROOT / "schema").glob("*.schema.json")}
    files["whence/bin/whence"] = command.read_bytes()
    info = info_folder(project)
    scripts = "".join(f"{name} = {target}\n" for name, target in project["scripts"].items())
    wheel = ["Wheel-Version: 1.0", "Generator: whence", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags(architecture))]
    files |= {f"{info}/METADATA": metadata(project).encode(), f"{info}/WHEEL": "\n".join([*wheel, ""]).encode(),
              f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode()}
    files |= {f"{info}/licenses/{name}": (ROOT / name).read_bytes() for name in project["license-files"]}
    return files


def info_folder(project: dict) -> str:
    return f"{project['name'].replace('-', '_')}-{version()}.dist-info"


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write(path: Path, files: dict[str, bytes]) -> None:
    """A zip with the files in the order of their names, those of dist-info last, as its specification recommends."""
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)), EARLIEST))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            wheel.writestr(entry, files[name])


def make(command: Path, architecture: str, folder: Path) -> Path:
    files = contents(command, architecture)
    info = next(name.partition("/")[0] for name in files if ".dist-info/" in name)
    record = "".join(record_line(name, data) for name, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    platforms = ".".join(platform.format(architecture) for platform in PLATFORMS)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{info.removesuffix('.dist-info')}-py3-none-{platforms}.whl"
    write(path, files)
    return path


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
