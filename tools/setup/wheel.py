"""Makes the wheels. whence-onnx contains a fully static command and the Python package, for every Python and libc.
whence-onnx-recorder contains a command that loads LibTorch, and a recorder for each minor version of PyTorch.

    wheel.py COMMAND ARCHITECTURE FOLDER                 writes FOLDER/whence_onnx-VERSION-py3-none-....whl, prints its path
    wheel.py --recorder COMMAND ARCHITECTURE FOLDER TORCH=LIBRARIES...   TORCH: 2.13.0; LIBRARIES: the folder of its recorder

The metadata comes from pyproject.toml, the version from CMakeLists.txt. The wheels are reproducible: the time of files is
$SOURCE_DATE_EPOCH, else the earliest time that a zip can store.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

import linked

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
THIRD_PARTY = "THIRD-PARTY.txt"
EARLIEST = 315_532_800  # 1980, the earliest time in a zip
# A static command needs no libc, so these are the oldest platforms of each family; newer systems accept them. But pip
# compares names if a platform is given, as in `pip download --platform musllinux_1_2_x86_64`, so common newer ones are
# listed too; 2_28 is the platform of PyTorch's wheels.
PLATFORMS = ("manylinux_2_17_{}", "manylinux2014_{}", "manylinux_2_28_{}", "musllinux_1_1_{}", "musllinux_1_2_{}")
# The recorder's command and libraries need GLIBC_2.34 and GLIBCXX_3.4.29.
RECORDER_PLATFORMS = ("manylinux_2_34_{}",)


def version() -> str:
    """Returns the version in CMakeLists.txt, the only file that contains it."""
    return re.search(r"project\(whence VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def metadata(name: str, description: str, requirements: list[str], extras: dict[str, list[str]], readme: str,
             licences: tuple[str, ...] = ()) -> str:
    """Returns the METADATA file, in core metadata version 2.4."""
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version()}", f"Summary: {description}",
             f"License-Expression: {project()['license']}", *(f"License-File: {each}" for each in (*project()["license-files"], *licences)),
             f"Requires-Python: {project()['requires-python']}", *(f"Requires-Dist: {each}" for each in requirements)]
    for extra, needed in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {each}; extra == '{extra}'" for each in needed]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def info_files(info: str, metadata_text: str, tags: list[str]) -> dict[str, bytes]:
    """Returns the files of dist-info except entry points and RECORD."""
    wheel = ["Wheel-Version: 1.0", "Generator: whence", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags), ""]
    return {f"{info}/METADATA": metadata_text.encode(), f"{info}/WHEEL": "\n".join(wheel).encode(),
            **{f"{info}/licenses/{name}": (ROOT / name).read_bytes() for name in project()["license-files"]}}


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write(path: Path, files: dict[str, bytes]) -> None:
    """Writes a zip with the files sorted by name, dist-info last, as the wheel specification recommends."""
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)), EARLIEST))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            wheel.writestr(entry, files[name])


def finish(files: dict[str, bytes], info: str, platforms: list[str], folder: Path) -> Path:
    """Adds RECORD, writes the wheel and returns its path."""
    record = "".join(record_line(name, data) for name, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{info.removesuffix('.dist-info')}-py3-none-{'.'.join(platforms)}.whl"
    write(path, files)
    return path


def info_folder(name: str) -> str:
    return f"{name.replace('-', '_')}-{version()}.dist-info"


def make(command: Path, architecture: str, folder: Path) -> Path:
    """Makes the wheel whence-onnx."""
    name, source = project()["name"], ROOT / "python" / "whence"
    files = {f"whence/{path.relative_to(source)}": path.read_bytes()
             for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    files |= {f"whence/schema/{path.name}": path.read_bytes() for path in (ROOT / "schema").glob("*.schema.json")}
    files["whence/bin/whence"] = command.read_bytes()
    files["whence/SKILL.md"] = (ROOT / "SKILL.md").read_bytes()
    info, platforms = info_folder(name), [each.format(architecture) for each in PLATFORMS]
    # share/ of the environment: man and shells look there for commands on PATH.
    shared, data = ROOT / "build" / "share", f"{info.removesuffix('.dist-info')}.data/data/share"
    files |= {f"{data}/{path.relative_to(shared)}": path.read_bytes() for path in shared.rglob("*") if path.is_file()}
    others = (THIRD_PARTY,) if command.with_suffix(".d").exists() else ()
    text = metadata(name, project()["description"], [], project()["optional-dependencies"],
                    (ROOT / project()["readme"]).read_text(), others)
    files |= info_files(info, text, [f"py3-none-{each}" for each in platforms])
    if others:
        build = command.parents[1]
        files[f"{info}/licenses/{THIRD_PARTY}"] = linked.third_party(build).encode()
        files[f"{info}/sboms/{name}.cdx.json"] = linked.bill(build, name, version(), command).encode()
    scripts = "".join(f"{script} = {target}\n" for script, target in project()["scripts"].items())
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    return finish(files, info, platforms, folder)


def make_recorder(command: Path, architecture: str, folder: Path, recorders: dict[str, Path]) -> Path:
    """Makes the wheel whence-onnx-recorder. ``recorders``: the folder of the libraries, by version of PyTorch."""
    name = f"{project()['name']}-recorder"
    files = {"whence_recorder/bin/whence": command.read_bytes(),
             "whence_recorder/__init__.py": b'"""The recorder libraries; whence.command.recorder_library chooses one."""\n'}
    for torch, libraries in recorders.items():
        minor = ".".join(torch.split(".")[:2])
        for library in ("libwhence_recorder.so", "libwhence_recorder_torch.so"):
            files[f"whence_recorder/torch-{minor}/{library}"] = (libraries / library).read_bytes()
    info, platforms = info_folder(name), [each.format(architecture) for each in RECORDER_PLATFORMS]
    minors = ", ".join(".".join(torch.split(".")[:2]) for torch in recorders)
    text = metadata(name, f"whence's recorder for PyTorch {minors}: TorchScript archives and traces",
                    [f"{project()['name']}=={version()}"], {}, "whence-onnx needs it for TorchScript archives and traces.\n")
    return finish(files | info_files(info, text, [f"py3-none-{each}" for each in platforms]), info, platforms, folder)


def main(words: list[str]) -> Path:
    if words[0] != "--recorder":
        return make(Path(words[0]), words[1], Path(words[2]))
    recorders = {torch: Path(libraries) for torch, libraries in (word.split("=", 1) for word in words[4:])}
    return make_recorder(Path(words[1]), words[2], Path(words[3]), recorders)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
