"""The commit determines which shard of the test matrix continuous integration runs. Over time, all shards run."""

import hashlib
import os
import subprocess

import command
from shards import shard


def shard_of_commit(commit: str) -> tuple[int, int]:
    script = command.ROOT / "tools" / "setup" / "matrix_shard.sh"
    return shard(subprocess.run([script, commit], capture_output=True, text=True, check=True).stdout.strip())


def test_commits_cover_all_shards():
    commits = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(100)]
    shards = [shard_of_commit(commit) for commit in commits]
    (count,) = {count for _, count in shards}
    assert count > 1 and {number for number, _ in shards} == set(range(1, count + 1))
    assert [shard_of_commit(commit) for commit in commits[:5]] == shards[:5], "the shard of a commit changed"


def test_continuous_integration_runs_the_shard(tmp_path):
    """A fake `make` prints its arguments."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$@" "$MATRIX"\n')
    make.chmod(0o755)

    def output_with(**variables: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if name != "MATRIX"}
        environment = {**inherited, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        return subprocess.run([command.ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True,
                              check=True).stdout.strip()

    assert output_with(MATRIX="3/8") == "test 3/8"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=command.ROOT, capture_output=True, text=True)
    if head.returncode == 0:  # the shard depends on a commit
        number, count = shard_of_commit(head.stdout.strip())
        assert output_with() == f"test {number}/{count}"
