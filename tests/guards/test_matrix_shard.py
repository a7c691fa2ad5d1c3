"""Continuous integration runs a shard of the test matrix that depends on the commit, and eventually all shards."""

import hashlib
import os
import subprocess

import command
from shards import shard


def chosen(commit: str) -> tuple[int, int]:
    script = command.ROOT / "tools" / "setup" / "matrix_shard.sh"
    return shard(subprocess.run([script, commit], capture_output=True, text=True, check=True).stdout.strip())


def test_every_shard_is_chosen_by_some_commit():
    commits = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(100)]
    shards = [chosen(commit) for commit in commits]
    (count,) = {count for _, count in shards}
    assert count > 1 and {number for number, _ in shards} == set(range(1, count + 1))
    assert [chosen(commit) for commit in commits[:5]] == shards[:5], "one commit, two shards"


def test_continuous_integration_passes_the_shard_on(tmp_path):
    """A fake `make` prints its arguments."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$@" "$MATRIX"\n')
    make.chmod(0o755)

    def output_with(**variables: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "MATRIX"}
        environment = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        return subprocess.run([command.ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True,
                              check=True).stdout.strip()

    assert output_with(MATRIX="3/8") == "test 3/8"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=command.ROOT, capture_output=True, text=True)
    if head.returncode == 0:  # without a commit there is no shard
        number, count = chosen(head.stdout.strip())
        assert output_with() == f"test {number}/{count}"
