"""Reads the table in annotator/operators/operator_forms.cpp."""

import re

from command import ROOT


def recent_operators() -> dict[str, tuple[int, int]]:
    """Maps an operator to the opset that added it, and to the last opset at which ONNX Runtime runs it."""
    text = (ROOT / "annotator/operators/operator_forms.cpp").read_text()
    newest = int(re.search(r"newest = (\d+)", text)[1])
    rows = re.findall(r'\{"(\w+)", (\d+), (\w+)\}', text)
    assert len(rows) > 4
    return {name: (int(since), newest if until == "newest" else int(until)) for name, since, until in rows}
