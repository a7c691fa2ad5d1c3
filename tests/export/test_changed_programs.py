"""Programs of the tables in tests/ops with one thing changed, as mutate_programs.py makes them: whence exports each or
refuses it with a code and a remedy, and no change ends in a defect, a hang or full memory."""

import copy
import json
import random
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


def test_what_ends_badly_is_found(good):
    """No time, in which nothing can be right."""
    sweep = Sweep(seconds=0)
    sweep.run(good, "good", 3, random.Random(0))
    assert len(sweep.findings) == 3 and all("too long" in each for each in sweep.findings)


def test_some_changes_of_some_rows():
    chance, sweep = random.Random(0), Sweep()
    for case in chance.sample(CASES, 25):
        if archive := archive_of(case):
            sweep.run(archive, str(case), 8, chance)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert sweep.counts.total() > 100 and sweep.counts["ok"] and len(sweep.counts) > 2, sweep.counts


@pytest.mark.matrix
@pytest.mark.parametrize("family", FAMILIES)
def test_changes_of_every_row(family):
    sweep = Sweep()
    swept(family, sweep, 10, 0)
    assert not sweep.findings, "\n".join(sweep.findings)
    assert sweep.counts["ok"] or sweep.counts["E0204"], sweep.counts
