"""Every operator case as a torch.export archive (.pt2): what has a converter in a trace has one there, too."""

import pytest
import torch

from command import run
from ops.case import Case
from ops.comparing import check_export
from ops.table import FAMILIES

PARAMETERS = [pytest.param(case, id=f"{family}-{case}")
              for family, cases in FAMILIES.items() for case in cases if not isinstance(case.function, str)]


@pytest.mark.parametrize("case", PARAMETERS)
def test_operator(case: Case, tmp_path):
    if case.not_in_archives:
        pytest.skip(case.not_in_archives)
    archive, target = tmp_path / "operator.pt2", tmp_path / "operator.onnx"
    program = case.exported_program()
    torch.export.save(program, archive)
    result = run("export", archive, "-o", target, "--opset", case.opsets[-1], code=4 if case.refused else 0)
    if case.refused:
        assert case.refused in result.stderr
        return
    # The program knows which sizes it was promised for: not 1 where torch.export told 1 from others.
    check_export(case, case.module(), target, of_any_size=program.module() if case.dynamic else None)
