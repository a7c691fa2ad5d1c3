"""Creates the corpus: ONNX files of the models, written by other tools, each with its truth.

    corpus.py [--folder build/accuracy] [--models a,b] [--sources dynamo-18,...] [--files ort-basic,...]
              [--whence PATH]

        <folder>/<model>/model.pt, model.whence.json             the archive and its recording, the only input of the
                                                                 matcher besides the bare file
        <folder>/<model>/scripted.pt, scripted.whence.json       if the model can be scripted
        <folder>/<model>/<source>/<transformation>.onnx          the file of another tool
        <folder>/<model>/<source>/<transformation>.truth.json    the expected answer (truth.py)
        <folder>/<model>/<source>/<transformation>.failed        instead of these two: why the tool failed

Existing files are kept. All files are recreated if the code or a tool's version changes; the recordings also if the
command changes.
"""

import argparse
import hashlib
import importlib.metadata
import logging
import sys
import tempfile
import traceback
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx

import command
import file_cache
from accuracy import carry, models
from accuracy.exporters import dynamo, torchscript
from accuracy.graphs import all_nodes, dead_nodes
from accuracy.transformations import BY_NAME, TABLE, Transformation
from accuracy.truth import Truth

FOLDER = command.ROOT / "build" / "accuracy"
PACKAGES = ("torch", "onnx", "onnxruntime", "onnxscript", "onnxslim", "onnxsim", "transformers")
MODULES = ("carry", "corpus", "cut", "equal", "further_models", "graphs", "models", "rename", "tools",
           "transformations", "truth", "tuned_models")


BASE_FAILED = "its base failed\n"


def sources() -> dict[str, tuple]:
    """Maps a name to (exporter, opset, dynamic axes)."""
    return {
        "dynamo-18": (dynamo.export, 18, False),
        "torchscript-18": (torchscript.export, 18, False),
        "torchscript-17": (torchscript.export, 17, False),
        "torchscript-13": (torchscript.export, 13, False),
        "dynamo-18-dynamic": (dynamo.export, 18, True),
        "torchscript-18-dynamic": (torchscript.export, 18, True),
    }


SOURCES = sources()
FULL = {"dynamo-18", "torchscript-18"}  # sources with all transformations; other sources have those of SHORT
SHORT = {"exported", "stripped", "nodes-renamed", "renamed", "ort-extended"}


def rows(model: str, source: str) -> list[Transformation]:
    return [row for row in TABLE if row.applies_to(model) and (source in FULL or row.name in SHORT)]


def code() -> list[Path]:
    """Returns the source files that determine the corpus."""
    folder = Path(__file__).parent
    return [*(folder / f"{name}.py" for name in MODULES), *sorted(folder.glob("exporters/*.py")),
            folder.parent / "models" / "zoo.py", folder.parent / "models" / "networks.py", folder.parent / "onnx_tools.py"]


def version(sources: list[Path]) -> str:
    """Returns a digest that changes whenever files written by these sources would."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    for package in PACKAGES:
        digest.update(f"{package}={importlib.metadata.version(package)}".encode())
    return digest.hexdigest()


def make(folder: Path, whence: Path, model: str, source_names: list[str], file_names: list[str]) -> None:
    """Creates all requested files of one model that do not exist yet."""
    models.record(model, folder / model, whence)
    for source in source_names:
        source_folder = folder / model / source
        source_folder.mkdir(parents=True, exist_ok=True)
        for row in rows(model, source):
            if row.name in file_names:
                make_file(source_folder, model, source, row)


def make_file(source_folder: Path, model: str, source: str, row: Transformation) -> None:
    """Creates one file and its truth, after the files that it is based on."""
    target, failed = source_folder / f"{row.name}.onnx", source_folder / f"{row.name}.failed"
    if failed.exists() or target.with_suffix(".truth.json").exists():
        return
    if row.base is not None:
        make_file(source_folder, model, source, BY_NAME[row.base])
        if (source_folder / f"{row.base}.failed").exists():
            failed.write_text(BASE_FAILED)
            return
    try:
        with models.quiet():
            truth = apply(source_folder, model, source, row, target)
    except Exception as error:  # any failure of a tool is a result
        failed.write_text(f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}")
        target.unlink(missing_ok=True)
        return
    for key in dead_nodes(onnx.load(target, load_external_data=False)):
        truth.nodes.pop(key, None)
        truth.unknown[key] = "dead"
    truth.save(target.with_suffix(".truth.json"))


def apply(source_folder: Path, model: str, source: str, row: Transformation, target: Path) -> Truth:
    if row.base is None:
        exporter, opset, dynamic = SOURCES[source]
        return exporter(model, opset, dynamic, target)
    base = onnx.load(source_folder / f"{row.base}.onnx")
    truth = Truth.load(source_folder / f"{row.base}.truth.json")
    if row.tool is None:
        truth = truth.renamed(row.rename(base) if row.rename else row.cut(base, models.example(model)))
        for key, _ in all_nodes(base):
            if key not in truth.nodes:
                truth.unknown.setdefault(key, "added")
        onnx.save(base, target)
        return truth
    return through_tool(base, truth, model, row, target)


def through_tool(base: onnx.ModelProto, truth: Truth, model: str, row: Transformation, target: Path) -> Truth:
    """Runs the tool on a file with a tag on every node, transfers the truth, and removes the tags."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        tagged, result = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        for key, node in all_nodes(base):
            node.doc_string = carry.TAG + key
        onnx.save(base, tagged)
        row.tool(model, tagged, result)
        after = onnx.load(result)
    truth = carry.transfer(base, truth, after, models.example(model))
    for _, node in all_nodes(after):
        node.ClearField("doc_string")
    onnx.save(after, target)
    return truth


def failures(folder: Path, keys) -> dict[tuple, str]:
    """Maps (model, source, transformation) to the reason of the failure; failures of a base are listed only once."""
    found = {}
    for model, source, name in keys:
        path = folder / model / source / f"{name}.failed"
        if path.exists() and not (text := path.read_text()).startswith(BASE_FAILED):
            found[model, source, name] = text.splitlines()[0]
    return found


def cached_folder(name: str) -> Path:
    """Returns a folder for a test's part of the corpus, kept between runs. Files that failed are tried again."""
    folder = file_cache.folder(name, *code())
    for path in folder.rglob("*.failed"):
        path.unlink()
    return folder


def refresh(folder: Path, sources: list[Path]) -> None:
    """Removes the files of a corpus if its sources or a tool's version have changed."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "version"
    if not stamp.exists() or stamp.read_text() != version(sources):
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix in {".onnx", ".json", ".failed", ".pt", ".safetensors"}:
                path.unlink()
        stamp.write_text(version(sources))


def names(text: str | None, valid_names) -> list[str]:
    """Returns the names in a comma-separated option, or all names if it is absent."""
    chosen = text.split(",") if text else list(valid_names)
    for name in chosen:
        if name not in valid_names:
            raise SystemExit(f"unknown name {name!r}; choose from {', '.join(valid_names)}")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--whence", type=Path, default=command.BINARY)
    parser.add_argument("--models")
    parser.add_argument("--sources")
    parser.add_argument("--files")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    refresh(options.folder, code())
    for model in names(options.models, models.NAMES):
        print(f"corpus: {model}", flush=True)
        make(options.folder, options.whence, model, names(options.sources, SOURCES), names(options.files, BY_NAME))


if __name__ == "__main__":
    main()
