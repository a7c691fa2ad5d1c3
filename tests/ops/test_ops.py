"""Compares every operator converter, in ONNX Runtime, with PyTorch. The cases are in cases/, one table per family."""

from pathlib import Path

import pytest
import torch

from command import run, run_json
from ops.case import Case
from ops.comparing import check_export
from ops.table import CASES, FAMILIES, faults

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.jit", "ignore::torch.jit.TracerWarning")
HERE = Path(__file__).parent


def operators(block) -> set[str]:
    """Returns the operators of a TorchScript graph, such as "aten::add.Tensor", including nested blocks."""
    names = set()
    for node in block.nodes():
        schema = node.schema()
        names.add(node.kind() if schema == "(no schema)" else schema.split("(")[0])
        for inner in node.blocks():
            names |= operators(inner)
    return names


def save_archive(case: Case, folder: Path) -> Path:
    archive = case.archive()
    graph = archive.inlined_graph
    recorded = case.recorded_as or case.key
    assert recorded in operators(graph), f"{recorded} does not occur in the archive:\n{graph}"
    path = folder / "operator.pt"
    archive.save(str(path))
    return path


def export_arguments(case: Case, archive: Path, folder: Path, opset: int) -> list[str]:
    inputs = folder / "inputs.pt"
    torch.save(tuple(case.tensors()), inputs)
    arguments = ["export", archive, "-o", folder / "operator.onnx", "--inputs", inputs, "--opset", opset]
    for group in case.dynamic.split():
        arguments += ["--dynamic", group]
    return arguments


PARAMETERS = [pytest.param(case, opset, id=f"{family}-{case}-opset{opset}")
              for family, cases in FAMILIES.items() for case in cases if not case.not_in_traces
              for opset in case.opsets]


@pytest.mark.parametrize("case, opset", PARAMETERS)
def test_operator(case: Case, opset: int, tmp_path):
    archive = save_archive(case, tmp_path)
    result = run(*export_arguments(case, archive, tmp_path, opset), code=4 if case.refused else 0)
    if case.refused:
        assert case.refused in result.stderr
        return
    # The reference is the loaded archive. It may differ from the traced function, because a Python number becomes a
    # tensor in it, with a tensor's type promotion.
    check_export(case, torch.jit.load(archive), tmp_path / "operator.onnx")


def test_every_row_has_distinct_inputs():
    reasons = [f"{case}: {fault}" for case in CASES for fault in faults(case)]
    assert not reasons, "\n".join(reasons)


def table_keys() -> set[str]:
    return {entry["operator"] for entry in run_json("ops")["operators"]}


def test_every_converter_has_a_case():
    missing = table_keys() - {case.key for case in CASES}
    assert not missing, f"no case for {sorted(missing)}"


def test_every_case_has_a_converter():
    unknown = {case.key for case in CASES} - table_keys()
    assert not unknown, f"no converter for {sorted(unknown)}"


def test_operators_of_common_models_have_converters():
    """priority_a.txt lists the operators of common models, and those that need no converter with the reason."""
    lines = (HERE / "priority_a.txt").read_text().splitlines()
    required = {line.split()[0] for line in lines if line and not line.startswith("#")}
    assert required, "priority_a.txt lists nothing"
    missing = required - table_keys()
    assert not missing, f"no converter for {sorted(missing)}"
