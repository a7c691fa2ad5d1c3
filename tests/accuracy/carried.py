"""Measures how much metadata tools keep and `whence carry` restores: the tables of README.md and docs/carry.md.

    carried.py [--folder build/accuracy] [--models a,b] [--source dynamo-18] [--rows onnxslim,onnxsim+ort-basic+int8] [-v]

Each row is a tool, or several tools joined by `+`. The exporter's file, annotated with its truth, is processed twice:
by the tools only, and with `whence.carry`. `kept` is the percentage of nodes with known truth that have correct
metadata in the first result, `carried` the same for the second. The last column counts the confidence values of the
second. graphsurgeon is skipped if it is not installed (`pip install onnx-graphsurgeon`).
"""

import argparse
import collections
import importlib.util
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "tests"), str(root / "python")]

import onnx
import whence

from accuracy import corpus, models
from accuracy.score import Score, score_file, write_truth
from accuracy.transformations import BY_NAME, TOOLS, Transformation
from accuracy.truth import Truth

MODELS = "bert_tiny,distilbert,llama,gpt_neox,resnet50,convnext,unet,branches"
ROWS = ("onnxslim", "onnxsim", "ort-basic", "ort-extended", "version", "graphsurgeon", "float16", "int8", "qdq",
        "onnxsim+ort-basic+int8", "onnxslim+float16+ort-extended", "version+onnxslim+int8",
        "graphsurgeon+onnxsim+ort-extended", "ort-extended+float16+graphsurgeon")


def version(name: str, source: Path, target: Path) -> None:
    from onnx import version_converter

    onnx.save(version_converter.convert_version(onnx.load(source), 21), target)


def graphsurgeon(name: str, source: Path, target: Path) -> None:
    import onnx_graphsurgeon

    graph = onnx_graphsurgeon.import_onnx(onnx.load(source))
    onnx.save(onnx_graphsurgeon.export_onnx(graph.fold_constants().cleanup().toposort()), target)


ALL_TOOLS = {**TOOLS, "version": version, "graphsurgeon": graphsurgeon}


def rows_of(chain: str) -> list[Transformation]:
    """Returns the corpus rows for every prefix of a chain, and adds missing rows to the corpus."""
    rows, names = [], chain.split("+")
    for count in range(1, len(names) + 1):
        name, base = "+".join(names[:count]), "+".join(names[:count - 1]) or "exported"
        rows.append(BY_NAME.setdefault(name, Transformation(name, base, tool=ALL_TOOLS[names[count - 1]])))
    return rows


def can_run(chain: str) -> bool:
    return "graphsurgeon" not in chain or importlib.util.find_spec("onnx_graphsurgeon") is not None


def as_function(model: str, row: Transformation):
    def tool(source: str, target: str) -> None:
        with models.quiet():
            row.tool(model, Path(source), Path(target))

    return tool


def measure(folder: Path, model: str, source: str, chain: str) -> tuple[Score, Score] | None:
    """Returns the scores of the file without and with whence.carry; None if a tool fails on the model."""
    source_folder, rows = folder / model / source, rows_of(chain)
    source_folder.mkdir(parents=True, exist_ok=True)
    corpus.make_file(source_folder, model, source, rows[-1])
    if (source_folder / f"{chain}.failed").exists():
        return None
    truth = Truth.load(source_folder / f"{chain}.truth.json")
    steps = [as_function(model, row) for row in rows]
    with tempfile.TemporaryDirectory() as scratch:
        start, tools_only, carried = (Path(scratch) / f"{name}.onnx" for name in ("start", "tools_only", "carried"))
        write_truth(source_folder, "exported", start)
        tools_only.write_bytes(start.read_bytes())
        for step in steps:
            target = tools_only.with_name("next.onnx")
            step(tools_only, target)
            target.replace(tools_only)
        whence.carry(start, steps, carried)
        return score_file(truth, tools_only), score_file(truth, carried)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=corpus.FOLDER)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--source", default="dynamo-18", choices=corpus.SOURCES)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("-v", action="store_true", help="list every node that is not exact")
    options = parser.parse_args()
    print(f"{'':34}   kept  carried  nodes")
    for chain in filter(can_run, options.rows.split(",")):
        tools_only, carried = Score(), Score()
        for model in options.models.split(","):
            scores = measure(options.folder, model, options.source, chain)
            if scores is None:
                print(f"  not created: {chain} of {model}")
                continue
            tools_only.add(scores[0])
            carried.add(scores[1])
        confidences = collections.Counter({word: kinds.total() for word, kinds in carried.confidence.items()})
        print(f"{chain:34} {tools_only.share('exact'):6.2f}   {carried.share('exact'):6.2f}  {carried.total():5}  "
              + ", ".join(f"{count} {word}" for word, count in sorted(confidences.items())), flush=True)
        for key, operator, expected, answer, kind in carried.nodes if options.v else ():
            print(f"  {kind} {operator} {key}: {expected}, found {answer.module!r} ({answer.confidence}; "
                  f"{answer.rule})")


if __name__ == "__main__":
    main()
