"""Lists which tests may be skipped, how many, and why. Any other skip fails the run, so that no test stops running
unnoticed."""

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Skip:
    tests: str     # glob over test ids
    reason: str    # glob over the printed reasons
    at_most: int


# Cases of operators that torch.export replaces with others state the reason (not_in_archives). Packages that are not
# available on every machine have a reason that states how to install them.
TABLE = (
    Skip("ops/test_archives.py::*", "*", 70),
    Skip("ops/test_matrix.py::*", "*", 2000),
    Skip("python/test_source_install.py::*", "a wheel *", 3),
    Skip("python/test_wheel.py::*", "the archives of a static command are not installed*", 30),
    Skip("python/test_recorders.py::*", "the archives of a static command are not installed*", 10),
    Skip("guards/test_release.py::*", "the archives of a static command are not installed*", 10),
    Skip("python/test_wheel.py::*", "no environment of *", 1),
    Skip("guards/test_release.py::*", "no environment of *", 1),
    Skip("*", "only root may change the root of a process*", 2),
    Skip("cross/*", "no command for aarch64 *", 10),
    Skip("export/test_exported_programs.py::*", "torch.export fixes the length of a packed sequence", 1),
    Skip("python/test_lowered_programs.py::*", "torch.jit.trace has no nested vmap", 1),
    Skip("cli/test_errors.py::*", "*small file system*", 8),
    Skip("python/test_fleet.py::*", "No module named *", 2),
    Skip("python/test_fleet.py::*", "*chromium*", 1),
    Skip("samples/test_minilm.py::*", "the weights are not installed*", 20),
    Skip("views/test_viewers.py::*", "pip could not fetch the viewers*", 8),
    Skip("samples/test_first.py::*", "pip could not fetch timm and ultralytics: *", 2),
    Skip("packaging/test_workflows.py::*", "pip could not fetch pre-commit: *", 2),
    Skip("packaging/test_workflows.py::*", "no environment of *", 2),
    Skip("tool_dialects/*", "no environment of *", 20),
    Skip("tool_dialects/*", "*chromium*", 2),
    Skip("views/test_runtimes.py::*", "OpenVINO ends with signal *", 12),
    Skip("views/*", "*chromium*", 40),
    Skip("guards/test_repository.py::*", "not a git work tree", 4),
    Skip("cli/test_completions.py::*", "* is not installed: *", 14),
)


def unexpected(skipped: list[tuple[str, str]]) -> list[str]:
    """Returns a line for each skip, given as (test id, reason), that the table does not allow."""
    counts = dict.fromkeys(TABLE, 0)
    lines = []
    for test, reason in skipped:
        row = next((row for row in TABLE if fnmatch(test, row.tests) and fnmatch(reason, row.reason)), None)
        if row is None:
            lines.append(f"{test} was skipped, which tests/skips.py does not allow: {reason}")
        else:
            counts[row] += 1
    lines += [f"{count} tests of {row.tests} were skipped ({row.reason}), tests/skips.py allows {row.at_most}"
              for row, count in counts.items() if count > row.at_most]
    return lines
