"""Every operator case as a torch.export archive (.pt2): what has a converter in a trace has one there, too."""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from command import run
from ops.case import Case
from ops.comparing import check_export
from ops.test_ops import FAMILIES

PARAMETERS = [pytest.param(case, id=f"{family}-{case}")
              for family, cases in FAMILIES.items() for case in cases if not isinstance(case.function, str)]


def exported(case: Case, folder: Path, pool: ThreadPoolExecutor) -> Future | None:
    """The export of a case, under way in `pool`; None where torch.export makes no archive of it."""
    if case.not_in_archives:
        return None
    try:
        torch.export.save(case.exported_program(), folder / "operator.pt2")
    except Exception as error:  # noqa: BLE001, one broken case must not stop the others
        failed = Future()
        failed.set_exception(error)
        return failed
    arguments = ["export", folder / "operator.pt2", "-o", folder / "operator.onnx", "--opset", case.opsets[-1]]
    return pool.submit(run, *arguments, code=4 if case.refused else 0)


@pytest.fixture(scope="module")
def exports(request, tmp_path_factory):
    """{test: (folder, future)} of all selected cases, ahead of their tests: Python makes the next archive while the
    command exports the last."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        started = {}
        for item in request.session.items:
            if item.module is request.module and hasattr(item, "callspec"):
                folder = tmp_path_factory.mktemp("archive")
                started[item.nodeid] = folder, exported(item.callspec.params["case"], folder, pool)
        yield started
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", PARAMETERS)
def test_operator(case: Case, request, exports):
    folder, future = exports[request.node.nodeid]
    if future is None:
        pytest.skip(case.not_in_archives)
    result = future.result()
    if case.refused:
        assert case.refused in result.stderr
        return
    check_export(case, case.module(), folder / "operator.onnx")
