"""Programs of the tables in tests/ops with one thing changed, as mutate_programs.py makes them: whence exports each or
refuses it with a code and a remedy, and no change ends in a defect, a hang or full memory."""

import copy
import json
import random
import subprocess
import zipfile

import pytest

from export.mutate_programs import PROGRAM, Sweep, applied, archive_of, changes, swept
from ops.table import CASES, FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def good() -> zipfile.ZipFile:
    return archive_of(next(case for case in CASES if case.key == "aten::im2col"))


def document_of(archive: zipfile.ZipFile) -> dict:
    return json.loads(archive.read(next(each for each in archive.namelist() if each.endswith(PROGRAM))))


def test_each_change_is_another_program_and_is_undone(good):
    document = document_of(good)
    before, found = copy.deepcopy(document), changes(document_of(good))
    assert len(found) > 150
    for change in found:
        with applied(change, document):
            assert document != before, change
        assert document == before, change


class Answers:
    """In the place of the command's server: one answer, or none in time."""

    def __init__(self, code: int | None, said: str):
        self.code, self.said = code, said

    def run(self, arguments, environment, seconds) -> subprocess.CompletedProcess:
        if self.code is None:
            raise subprocess.TimeoutExpired(arguments, seconds)
        return subprocess.CompletedProcess(arguments, self.code, "", self.said)


@pytest.mark.parametrize("code, said, found", [
    (0, "", ""), (4, "E0302 converter refused: no; try: yes", ""), (3, "E0204 corrupt file: no; try: yes", ""),
    (70, "E0901 internal: no; try: yes", "exit 70"), (-11, "E0901 internal: no; try: yes", "exit -11"),
    (-9, "", "exit -9"), (4, "E0302 converter refused: no", "without a remedy"), (4, "no; try: yes", "without an error"),
    (4, "E0306 over limit: out of memory; try: yes", "too large"), (None, "", "too long"),
])
def test_what_ends_badly_is_found(code, said, found, tmp_path):
    sweep = Sweep()
    sweep.server = Answers(code, said)
    sweep.judge(tmp_path / "changed.pt2", "a change")
    assert found in sweep.findings[0] if found else not sweep.findings


def test_some_changes_of_some_rows():
    chance, sweep = random.Random(0), Sweep()
    for case in chance.sample(CASES, 16):
        if archive := archive_of(case):
            sweep.run(archive, str(case), 8, chance)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert sweep.counts.total() > 80 and sweep.counts["ok"] and len(sweep.counts) > 2, sweep.counts


# TorchScript source has no form in torch.export.
EXPORTED = [family for family, cases in FAMILIES.items() if any(not isinstance(case.function, str) for case in cases)]


@pytest.mark.matrix
@pytest.mark.parametrize("family", EXPORTED)
def test_changes_of_every_row(family):
    sweep = Sweep()
    rows = swept(family, sweep, 10, 0)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert rows and sweep.counts.total() >= 5 * rows, sweep.counts
    later_opsets = family == "onnx_native"  # than the default, at which the sweep exports
    assert sweep.counts["ok"] or later_opsets, sweep.counts
