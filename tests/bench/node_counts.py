"""Counts nodes of `whence export` from a .pt and a .pt2, and of torch.onnx.export(dynamo=True), static and dynamic.

    python tests/bench/node_counts.py [bert_tiny swin ...] [-v] [--shape static]

Each exporter's optimiser runs first; the .pt2 and the dynamo file come from one ExportedProgram. `more` marks a count
above dynamo's, `apart` two counts of whence that differ by more than 2 %. -v lists the operators that differ. Archives
and dynamo's counts are cached in build/kept; delete build/kept/node_counts after changing make() below. Models of timm
and torchvision are included if these packages are installed.
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
import file_cache
from models import zoo
from models.families import FAMILIES

OPSET = 20
SHAPES = ("static", "dynamic")
SOURCES = tuple(Path(zoo.__file__).parent / f"{name}.py" for name in ("zoo", "networks", "architectures", "families"))


def operators(path: Path) -> collections.Counter:
    """Counts the operators of a file, including subgraphs."""
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
    """Returns the sizes of the inputs; dynamic ones are at least 2, because torch.export specialises a size of 1."""
    return entry.first if shape == "static" else {key: max(size, 2) for key, size in entry.first.items()}


def make(entry: zoo.Entry, shape: str, folder: Path) -> None:
    """Writes model.pt, inputs.pt, model.pt2 and dynamo.json to the folder, and failures to failed.txt."""
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


def archive_folder(name: str, shape: str) -> Path:
    path = file_cache.folder("node_counts", *SOURCES) / f"{name}.{shape}"

    def write(folder: Path) -> None:
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(FAMILIES[name], shape, folder)

    return file_cache.cached(path, write)


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
    folder = archive_folder(name, shape)
    traced, exported = (whence(name, shape, folder / file) for file in ("model.pt", "model.pt2"))
    stored = folder / "dynamo.json"
    dynamo_counts = collections.Counter(json.loads(stored.read_text())) if stored.exists() else None
    totals = [None if counts is None else counts.total() for counts in (traced, exported, dynamo_counts)]
    whence_totals = [count for count in totals[:2] if count is not None]
    has_more = whence_totals and dynamo_counts is not None and max(whence_totals) > totals[2]
    marks = [f"more: +{max(whence_totals) - totals[2]}" if has_more else "",
             "apart" if len(whence_totals) == 2 and max(whence_totals) > 1.02 * min(whence_totals) else ""]
    print(f"{name:28} {shape:8} .pt {totals[0]!s:>5}   .pt2 {totals[1]!s:>5}   dynamo {totals[2]!s:>5}   "
          + " ".join(filter(None, marks)), flush=True)
    if verbose and dynamo_counts is not None:
        for label, counts in (("pt", traced), ("pt2", exported)):
            if counts is not None and counts != dynamo_counts:
                differing = [op for op in sorted({*counts, *dynamo_counts}) if counts[op] != dynamo_counts[op]]
                print(f"    {label:4} against dynamo",
                      *(f"{op}{counts[op] - dynamo_counts[op]:+d}" for op in differing))
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
                archive_folder(name, shape)
                if not options.make:
                    compare(name, shape, options.verbose)
            except Exception as error:
                print(f"{name:28} {shape:8} {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
