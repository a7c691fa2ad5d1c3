"""Converts every operator case from a torch.export archive (.pt2), with the same checks as for traces. The archives are
cached between runs."""

from pathlib import Path

import pytest
import torch

import file_cache
from command import run
from ops.case import Case
from ops.comparing import check_export
from ops.table import FAMILIES

HERE = Path(__file__).parent
PARAMETERS = [pytest.param(case, number, id=f"{family}-{case}")
              for family, cases in FAMILIES.items() for number, case in enumerate(cases)
              if not isinstance(case.function, str)]


def cached_archive(case: Case, number: int) -> Path:
    """Returns the archive of row `number` of the case's table; exports it if it is missing."""
    sources = HERE / "case.py", HERE / "table.py", HERE / "cases" / f"{case.family}.py"
    folder = file_cache.folder(f"operators/{case.family}", *sources)
    return file_cache.cached(folder / f"{number}.pt2", lambda path: torch.export.save(case.exported_program(), path))


@pytest.mark.parametrize("case, number", PARAMETERS)
def test_operator(case: Case, number: int, tmp_path):
    if case.not_in_archives:
        pytest.skip(case.not_in_archives)
    archive, target = cached_archive(case, number), tmp_path / "operator.onnx"
    result = run("export", archive, "-o", target, "--opset", case.opsets[-1], code=4 if case.refused else 0)
    if case.refused:
        assert case.refused in result.stderr
        return
    # The loaded program refuses sizes that torch.export excluded, such as 1.
    check_export(case, case.module(), target,
                 small_size_reference=torch.export.load(archive).module() if case.dynamic else None)
