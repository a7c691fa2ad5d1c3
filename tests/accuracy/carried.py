"""Measures how much metadata tools keep and `whence carry` restores: the tables of README.md and docs/carry.md.

    carried.py [--folder build/accuracy] [--models a,b] [--source dynamo-18] [--rows onnxslim,onnxsim+ort-basic+int8] [-v]

Each row is a tool, or several tools joined by `+`, or a glob over the tools of `rewriters.py`: `onnxoptimizer:*`,
`onnxscript:*`, `ort_fusions:*`, `olive:*`. The exporter's file, annotated with its truth, is processed by the tools only,
with `whence.carry`, and with `whence.keep` if the tool edits a model of onnx_ir, or with the pass of
`whence.exporters.olive` if it is Olive's. The columns are the percentages of nodes
with known truth that have the right modules in each result; the last one counts the confidence values of the last result.
Models in which a single tool changes no node are left out. Tools that are not installed are skipped
(`pip install onnx-graphsurgeon onnxoptimizer olive-ai`).
"""

import argparse
import collections
import fnmatch
import importlib.util
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "tests"), str(root / "python")]

import onnx
import onnx_ir
import whence

from accuracy import corpus, models, patterns, rewriters
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


patterns.register()
corpus.SOURCES["patterns"] = (patterns.export, 18, False)
ALL_TOOLS = {**TOOLS, "version": version, "graphsurgeon": graphsurgeon, **rewriters.tools()}


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


def measure(folder: Path, model: str, source: str, chain: str) -> tuple[Score, ...] | None:
    """Returns the scores of the file without and with whence.carry, and with whence.keep if the tool edits a model in
    memory; None if a tool fails on the model, or if a single tool changes no node."""
    source_folder, rows = folder / model / source, rows_of(chain)
    source_folder.mkdir(parents=True, exist_ok=True)
    corpus.make_file(source_folder, model, source, BY_NAME["exported"])
    steps = [as_function(model, row) for row in rows]
    with tempfile.TemporaryDirectory() as scratch:
        start, tools_only, carried = (Path(scratch) / f"{name}.onnx" for name in ("start", "tools_only", "carried"))
        write_truth(source_folder, "exported", start)
        if len(steps) == 1 and not changes_nodes(steps[0], start, tools_only):
            return None
        corpus.make_file(source_folder, model, source, rows[-1])
        if (source_folder / f"{chain}.failed").exists():
            return None
        truth = Truth.load(source_folder / f"{chain}.truth.json")
        tools_only.write_bytes(start.read_bytes())
        for step in steps:
            target = tools_only.with_name("next.onnx")
            step(tools_only, target)
            target.replace(tools_only)
        whence.carry(start, steps, carried)
        scores = [score_file(truth, tools_only), score_file(truth, carried)]
        if chain in rewriters.IN_MEMORY:
            scores.append(score_file(truth, kept(start, rewriters.IN_MEMORY[chain], Path(scratch) / "kept.onnx")))
        elif chain in rewriters.WITH_ORIGINS:
            with models.quiet():
                rewriters.WITH_ORIGINS[chain](model, start, Path(scratch) / "kept.onnx")
            scores.append(score_file(truth, Path(scratch) / "kept.onnx"))
        return tuple(scores)


def changes_nodes(step, source: Path, target: Path) -> bool:
    """Runs a tool on a copy; returns true also if it fails."""
    try:
        target.write_bytes(source.read_bytes())
        step(target, target.with_name("changed.onnx"))
    except Exception:  # make_file runs it again and stores the reason
        return True
    return nodes_of(source) != nodes_of(target.with_name("changed.onnx"))


def nodes_of(path: Path) -> list[tuple]:
    return [(node.op_type, list(node.input), list(node.output)) for node in onnx.load(path).graph.node]


def kept(start: Path, edit, target: Path) -> Path:
    """Runs a tool on a model in memory inside whence.keep."""
    model = onnx_ir.load(start)
    with models.quiet(), whence.keep(model):
        edit(model)
    onnx_ir.save(model, target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=corpus.FOLDER)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--source", default="dynamo-18", choices=corpus.SOURCES)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("-v", action="store_true", help="list every node that is not exact")
    options = parser.parse_args()
    print(f"{'':48}  tools    carry     keep  nodes")
    for chain in filter(can_run, chosen(options.rows)):
        total: list[Score] = []
        for model in options.models.split(","):
            scores = measure(options.folder, model, options.source, chain)
            if scores is None:
                if (options.folder / model / options.source / f"{chain}.failed").exists():
                    print(f"  not created: {chain} of {model}")
                continue
            total = total or [Score() for _ in scores]
            for each, score in zip(total, scores, strict=True):
                each.add(score)
        if not total:
            print(f"{chain:48}  changes nothing")
            continue
        best = total[-1]
        confidences = collections.Counter({word: kinds.total() for word, kinds in best.confidence.items()})
        shares = "".join(f"{score.share('exact'):7.2f}  " for score in total).ljust(27)
        print(f"{chain:48}{shares}{best.total():5}  "
              + ", ".join(f"{count} {word}" for word, count in sorted(confidences.items())), flush=True)
        for way, score in zip(("", "carry", "keep")[:len(total)], total, strict=True) if options.v else ():
            for key, operator, expected, answer, kind in score.nodes if way else ():
                print(f"  {way}: {kind} {operator} {key}: {expected}, found {answer.module!r} ({answer.confidence}; "
                      f"{answer.rule}) {sorted(map(str, answer.modules)) if kind == 'set' else ''}")


def chosen(rows: str) -> list[str]:
    """Expands globs, such as `onnxoptimizer:*`, to the names of tools."""
    return [name for row in rows.split(",")
            for name in (fnmatch.filter(ALL_TOOLS, row) if set(row) & set("*?[") else [row])]


if __name__ == "__main__":
    main()
