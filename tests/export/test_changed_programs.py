"""Programs of the tables in tests/ops, each with one change by mutate_programs.py: whence exports each or refuses it
with a code and a remedy. No change leads to a defect, a hang or exhausted memory."""

import copy
import json
import random
import subprocess
import zipfile

import pytest

from export.mutate_programs import PROGRAM, Sweep, applied, archive_of, changes, sweep_family
from ops.table import CASES, FAMILIES

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def valid_archive() -> zipfile.ZipFile:
    return archive_of(next(case for case in CASES if case.key == "aten::im2col"))


def document_of(archive: zipfile.ZipFile) -> dict:
    return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith(PROGRAM))))


def test_each_change_alters_the_program_and_is_undone(valid_archive):
    document = document_of(valid_archive)
    before, all_changes = copy.deepcopy(document), changes(document_of(valid_archive))
    assert len(all_changes) > 150
    for change in all_changes:
        with applied(change, document):
            assert document != before, change
        assert document == before, change


class StubServer:
    """Replaces the command's server: returns one result, or times out if the code is None."""

    def __init__(self, code: int | None, stderr: str):
        self.code, self.stderr = code, stderr

    def run(self, arguments, environment, seconds) -> subprocess.CompletedProcess:
        if self.code is None:
            raise subprocess.TimeoutExpired(arguments, seconds)
        return subprocess.CompletedProcess(arguments, self.code, "", self.stderr)


@pytest.mark.parametrize("code, stderr, finding", [
    (0, "", ""), (4, "E0302 converter refused: no; try: yes", ""), (3, "E0204 corrupt file: no; try: yes", ""),
    (70, "E0901 internal: no; try: yes", "exit 70"), (-11, "E0901 internal: no; try: yes", "exit -11"),
    (-9, "", "exit -9"), (4, "E0302 converter refused: no", "without a remedy"),
    (4, "no; try: yes", "without an error"), (4, "E0306 over limit: out of memory; try: yes", "too large"),
    (None, "", "too long"),
])
def test_bad_outcomes_are_findings(code, stderr, finding, tmp_path):
    sweep = Sweep()
    sweep.server = StubServer(code, stderr)
    sweep.judge(tmp_path / "changed.pt2", "a change")
    assert finding in sweep.findings[0] if finding else not sweep.findings


def test_sampled_changes_lead_to_no_findings():
    generator, sweep = random.Random(0), Sweep()
    for case in generator.sample(CASES, 16):
        if archive := archive_of(case):
            sweep.run(archive, str(case), 8, generator)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert sweep.counts.total() > 80 and sweep.counts["ok"] and len(sweep.counts) > 2, sweep.counts


# torch.export cannot export TorchScript source.
EXPORTABLE = [family for family, cases in FAMILIES.items() if any(not isinstance(case.function, str) for case in cases)]


@pytest.mark.matrix
@pytest.mark.parametrize("family", EXPORTABLE)
def test_changes_of_every_row_lead_to_no_findings(family):
    sweep = Sweep()
    rows = sweep_family(family, sweep, 10, 0)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert rows and sweep.counts.total() >= 5 * rows, sweep.counts
    needs_later_opset = family == "onnx_native"  # later than the default, which the sweep uses
    assert sweep.counts["ok"] or needs_later_opset, sweep.counts
