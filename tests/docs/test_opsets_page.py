"""Compares docs/opsets.md with the code and ONNX: opsets that change the output, operators since opset 23, and the IR
version of each opset. tests/export/test_opsets.py exports at these opsets."""

import re

import onnx.defs
import onnx.helper

from command import ROOT
from operator_forms import recent_operators

PAGE = (ROOT / "docs/opsets.md").read_text()
CONVERTERS = [*(ROOT / "annotator/convert").rglob("*.cpp"), *(ROOT / "annotator/convert").rglob("*.h")]
THRESHOLD = re.compile(r"opset\(\) (?:<|>=) (\d+)|has_function\(c, (\d+)\)|constexpr int \w+ = (1[3-9]|2\d);")


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the first table below a heading, without its header."""
    lines = PAGE[PAGE.index(heading):].split("\n\n|", 1)[1].split("\n\n", 1)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert len(cells) > 3
    return cells


def versions(operator: str) -> set[int]:
    return {schema.since_version for schema in onnx.defs.get_all_schemas_with_history()
            if schema.name == operator and not schema.domain}


def test_the_range_matches_the_code():
    oldest, newest, default = re.search(r"oldest_opset = (\d+), newest_opset = (\d+), default_opset = (\d+)",
                                        (ROOT / "annotator/graph/graph.h").read_text()).groups()
    assert f"takes {oldest} to {newest}, {default} by default" in PAGE
    assert onnx.defs.onnx_opset_version() == int(newest), "onnx has another newest opset"


def test_every_ir_version_matches_onnx():
    by_opset = {}
    for _, ir_version, opset, *_ in onnx.helper.VERSION_TABLE:
        by_opset.setdefault(opset, ir_version)
    seen = []
    for opsets, ir_version in rows("# Opsets"):
        first, *last = map(int, opsets.split(" to "))
        for opset in range(first, (last or [first])[0] + 1):
            assert int(ir_version) == max(10, by_opset[opset])
            seen.append(opset)
    assert seen == list(range(13, 29))


def test_every_opset_that_converters_check_has_a_row():
    found = {int(number) for path in CONVERTERS for match in THRESHOLD.findall(path.read_text()) for number in match
             if number} | {since for since, _ in recent_operators().values()}
    assert 17 in found and len(found) > 8
    assert not found - {int(opset) for opset, *_ in rows("## By opset")}


def test_operators_were_added_at_their_rows_opset():
    named = [(int(opset), name) for opset, written, _ in rows("## By opset") for name in re.findall(r"`(\w+)`", written)]
    assert len(named) > 15
    assert not [(opset, name) for opset, name in named if opset not in versions(name)]
    assert set(recent_operators()) <= {name for _, name in named}


def test_recent_operators_match_the_code():
    page = {name: (int(since), default) for name, since, default, _ in rows("## Operators of opset 23")}
    assert len(page) == len(recent_operators()) > 4
    for name, (since, until) in recent_operators().items():
        expected = "never" if until < since else f"{since} to {until}" if until > since else str(since)
        assert page[name] == (since, expected)
        assert min(versions(name)) == since
