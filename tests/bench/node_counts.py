"""Node counts of `whence export` from a .pt and a .pt2, and of torch.onnx.export(dynamo=True), static and dynamic.

    python tests/bench/node_counts.py [bert_tiny swin ...] [-v] [--shape static]

Each exporter's own optimiser runs first; the .pt2 and the dynamo file come from one ExportedProgram. `more` marks a
count above dynamo's, `apart` two counts of whence that differ by more than 2 %. -v lists the operators that differ.
Archives and dynamo's counts are kept in build/kept; delete build/kept/node_counts after a change of make() below.
Models of timm and torchvision are included if these packages are installed.
"""

import argparse
import collections
import json
import logging
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx
import torch

import command
import kept
from models import zoo
from models.families import FAMILIES

OPSET = 20
SHAPES = ("static", "dynamic")
SOURCES = tuple(Path(zoo.__file__).parent / f"{name}.py" for name in ("zoo", "networks", "architectures", "families"))


def operators(path: Path) -> collections.Counter:
    """Counts the operators of a file and of the graphs in its nodes' attributes."""
    counts = collections.Counter()
    pending = [onnx.load(path, load_external_data=False).graph]
    while pending:
        for node in pending.pop().node:
            counts[node.op_type] += 1
            for attribute in node.attribute:
                pending += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    counts.pop("Constant", None)
    return counts


def sizes_of(entry: zoo.Entry, shape: str) -> dict:
    """torch.export specialises a size of 1."""
    return entry.first if shape == "static" else {key: max(size, 2) for key, size in entry.first.items()}


def make(entry: zoo.Entry, shape: str, folder: Path) -> None:
    """Writes model.pt, inputs.pt, model.pt2 and dynamo.json to the folder; failures go to failed.txt."""
    inputs = entry.inputs(sizes_of(entry, shape))
    torch.save(inputs, folder / "inputs.pt")
    failures = []
    try:
        zoo.trace_module(entry.model(), inputs).save(str(folder / "model.pt"))
    except Exception as error:
        failures.append(f"trace: {error}")
    try:
        dynamic = None
        if shape == "dynamic":
            dynamic = {key: dict.fromkeys(entry.dynamic.get(key, {}), torch.export.Dim.DYNAMIC) for key in inputs}
        program = torch.export.export(entry.model(), (), inputs, dynamic_shapes=dynamic, strict=False)
        torch.export.save(program, folder / "model.pt2")
        torch.onnx.export(program, dynamo=True, f=folder / "dynamo.onnx", opset_version=OPSET, verbose=False)
        (folder / "dynamo.json").write_text(json.dumps(operators(folder / "dynamo.onnx")))
        for file in folder.glob("dynamo.onnx*"):
            file.unlink()
    except Exception as error:
        failures.append(f"export: {error}")
    (folder / "failed.txt").write_text("\n".join(failures))


def material(name: str, shape: str) -> Path:
    path = kept.folder("node_counts", *SOURCES) / f"{name}.{shape}"

    def write(folder: Path) -> None:
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(FAMILIES[name], shape, folder)

    return kept.made(path, write)


def whence(name: str, shape: str, archive: Path) -> collections.Counter | None:
    output = archive.with_suffix(archive.suffix + ".onnx")
    options = []
    if archive.suffix == ".pt":
        options = ["--inputs", archive.with_name("inputs.pt")]
        options += FAMILIES[name].dynamic_options() if shape == "dynamic" else []
    if not archive.exists():
        return None
    result = command.run("export", archive, "-o", output, "--opset", OPSET, *options, code=None)
    if result.returncode:
        print(f"  {archive.name}: {result.stderr.strip()[:400]}")
        return None
    return operators(output)


def compare(name: str, shape: str, verbose: bool) -> None:
    folder = material(name, shape)
    traced, exported = (whence(name, shape, folder / file) for file in ("model.pt", "model.pt2"))
    stored = folder / "dynamo.json"
    theirs = collections.Counter(json.loads(stored.read_text())) if stored.exists() else None
    counts = [None if each is None else each.total() for each in (traced, exported, theirs)]
    ours = [count for count in counts[:2] if count is not None]
    words = [f"more: +{max(ours) - counts[2]}" if ours and theirs is not None and max(ours) > counts[2] else "",
             "apart" if len(ours) == 2 and max(ours) > 1.02 * min(ours) else ""]
    print(f"{name:28} {shape:8} .pt {counts[0]!s:>5}   .pt2 {counts[1]!s:>5}   dynamo {counts[2]!s:>5}   "
          + " ".join(filter(None, words)), flush=True)
    if verbose and theirs is not None:
        for label, each in (("pt", traced), ("pt2", exported)):
            if each is not None and each != theirs:
                print(f"    {label:4} against dynamo", *(f"{op}{each[op] - theirs[op]:+d}" for op in
                                                        sorted({*each, *theirs}) if each[op] != theirs[op]))
    if verbose and traced is not None and exported is not None and traced != exported:
        print("    pt   against pt2   ", *(f"{op}{traced[op] - exported[op]:+d}" for op in sorted({*traced, *exported})
                                          if traced[op] != exported[op]))
    if verbose and (failed := (folder / "failed.txt").read_text()):
        print(f"    {failed.splitlines()[0][:200]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(FAMILIES))
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--make", action="store_true", help="only create the archives and dynamo's counts")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    for name in options.models:
        for shape in options.shape or SHAPES:
            try:
                material(name, shape)
                if not options.make:
                    compare(name, shape, options.verbose)
            except Exception as error:
                print(f"{name:28} {shape:8} {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
