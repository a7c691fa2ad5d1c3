"""Runs the fuzz targets without a fuzzer, on all seeds and on mutated seeds, which are the same in each run."""

import os
import subprocess

import pytest

import command
from fuzz import make_seeds

CORPUS = command.BINARY.parent / "fuzz_corpus"
MUTATIONS = os.environ.get("FUZZ_MUTATIONS", "20")  # of each seed
TARGETS = sorted(path.stem for path in (command.ROOT / "tests" / "fuzz" / "targets").glob("*.cpp"))


@pytest.fixture(scope="session")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    make_seeds.main(folder, str(command.BINARY))
    return folder


def run(folder, *options, cwd):
    return subprocess.run([CORPUS, *options, folder], capture_output=True, text=True, cwd=cwd, timeout=1800)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_mutated_seeds_have_no_findings(target, seeds, tmp_path):
    text_seeds = command.ROOT / "tests" / "fuzz" / "seeds" / target
    files = [path for folder in (seeds / target, text_seeds) if folder.is_dir() for path in folder.iterdir()]
    assert files, f"no seeds in make_seeds.py and tests/fuzz/seeds/{target}"
    (tmp_path / "corpus" / target).mkdir(parents=True)
    for path in files:
        (tmp_path / "corpus" / target / path.name).write_bytes(path.read_bytes())
    done = run(tmp_path / "corpus", "--mutations", MUTATIONS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{len(files)} inputs" in done.stdout


def test_a_folder_without_a_target_is_an_error(tmp_path):
    (tmp_path / "corpus" / "misspelt").mkdir(parents=True)
    done = run(tmp_path / "corpus", cwd=tmp_path)
    assert done.returncode == 1 and "there is no target" in done.stderr
