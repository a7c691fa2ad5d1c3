"""Runs every table row in the forms of matrix.py (other opsets and dtypes), with the values, sizes and special numbers
of test_ops.py. `--matrix SHARD/OF` selects a part of these exports.

A form exists if PyTorch accepts it. It passes if ONNX Runtime's results equal PyTorch's, or if the export refuses it
with a code and a remedy; runtime_gaps.py lists the operators without a kernel in ONNX Runtime.
"""

import re
from pathlib import Path
from typing import Callable

import pytest
import torch

from command import run
from ops.case import Case
from ops.comparing import check_export, results_or_none
from ops.matrix import OLDEST, OPSETS, Form, forms, in_form
from ops.runtime_gaps import is_known_gap
from ops.table import CASES, FAMILIES
from ops.test_ops import export_arguments

pytestmark = pytest.mark.filterwarnings("ignore")
REFUSED = re.compile(r"E030[123] .*; try: ", re.DOTALL)


def save_archive(case: Case, folder: Path) -> tuple[Path, Callable] | None:
    """Saves the archive; returns it with PyTorch's module, or None if PyTorch refuses the form."""
    path = folder / ("operator.pt2" if case.not_in_traces else "operator.pt")
    try:
        if case.not_in_traces:
            torch.export.save(case.exported_program(), path)
            return path, case.module()
        case.archive().save(str(path))
    except Exception:  # noqa: BLE001, PyTorch may raise any exception
        return None
    return path, torch.jit.load(path)


def check_form(case: Case, form: Form, path: Path, reference: Callable, folder: Path) -> None:
    options = export_arguments(case, path, folder, form.opset)
    if path.suffix == ".pt2":  # contains its inputs and axes
        options = ["export", path, "-o", folder / "operator.onnx", "--opset", form.opset]
    result = run(*options, code=None)
    if result.returncode == 4:
        assert REFUSED.search(result.stderr), result.stderr
        assert form.dtype or form.opset < OLDEST.get(case.key, OPSETS[0]), f"refused: {result.stderr}"
        return
    assert result.returncode == 0, result.stderr
    try:
        check_export(case, reference, folder / "operator.onnx", form.dtype)
    except Exception as error:  # noqa: BLE001, ONNX Runtime's exceptions have no common class
        if not is_known_gap(error, form.dtype):
            raise


PARAMETERS = [pytest.param(case, id=f"{family}-{case}")
              for family, cases in FAMILIES.items() for case in cases if not case.refused]


@pytest.mark.matrix
@pytest.mark.parametrize("case", PARAMETERS)
def test_other_forms(case: Case, tmp_path):
    failures, archives = [], {}
    for form in forms(case):
        row = in_form(case, form)
        if form.dtype not in archives:
            folder = tmp_path / (form.dtype or "own")
            folder.mkdir()
            archives[form.dtype] = save_archive(row, folder)
        if (saved := archives[form.dtype]) is None or results_or_none(saved[1], row.tensors()) is None:
            assert form.dtype, "PyTorch refuses the row itself"
            continue
        try:
            check_form(row, form, *saved, tmp_path)
        except Exception as error:  # noqa: BLE001, one run reports all forms that fail
            failures.append(f"---- {form}\n{error}")
    assert not failures, "\n".join(failures)


def test_forms_include_the_opset_limits_and_every_dtype():
    """The forms include the command's oldest and newest opset, and more than a hundred rows of each dtype."""
    for opset, code in ((OPSETS[0], 0), (OPSETS[-1], 0), (OPSETS[0] - 1, 2), (OPSETS[-1] + 1, 2)):
        stderr = run("export", "no such file.pt2", "-o", "never.onnx", "--opset", opset, code=None).stderr
        assert ("--opset" in stderr) == bool(code), stderr
    counts = {dtype: sum(form.dtype == dtype for case in CASES for form in forms(case))
              for dtype in ("double", "half", "int", "int32")}
    assert all(count > 100 for count in counts.values()), counts
