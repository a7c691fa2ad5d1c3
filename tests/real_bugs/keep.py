"""Copies the files of bugs to files/, for the test that installs nothing: `python keep.py NAME...`, after `make real-bugs`.

Removes stack traces and documentation, because they contain paths.
"""

from __future__ import annotations

import sys

from make_files import FILES, SIDES  # first, because it sets the search path

import onnx

from bug import FOLDER, Bug, selected_bugs

KEPT = FOLDER / "files"
LARGEST = 20_000  # bytes


def without_paths(model: onnx.ModelProto) -> onnx.ModelProto:
    """Removes the texts that an exporter writes for people."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for each in (model, graph, *graph.node, *values, *model.functions):
        each.doc_string = ""
        kept = [(entry.key, entry.value) for entry in each.metadata_props
                if "stack_trace" not in entry.key and "/" not in entry.value]
        del each.metadata_props[:]
        for key, value in kept:
            each.metadata_props.add(key=key, value=value)
    return model


def keep(bug: Bug) -> None:
    KEPT.mkdir(exist_ok=True)
    for side in SIDES:
        path = KEPT / f"{bug.name}.{side}.onnx"
        onnx.save(without_paths(onnx.load(FILES / bug.name / f"{side}.onnx")), path)
        print(path.name, path.stat().st_size)
        if path.stat().st_size > LARGEST:
            raise SystemExit(f"{path.name} is larger than {LARGEST} bytes; keep another bug")


if __name__ == "__main__":
    for each in selected_bugs(sys.argv[1:]):
        keep(each)
