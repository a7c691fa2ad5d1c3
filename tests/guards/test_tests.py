"""Every test can fail: finds tests that could pass without a check, in the syntax trees of the tests."""

import ast
from functools import cache
from typing import Iterator

import command
import skips

TESTS = command.ROOT / "tests"
RUNS = {"run", "run_json", "run_process", "run_quickly"}


@cache
def trees() -> dict[str, ast.Module]:
    found = {str(path.relative_to(command.ROOT)): ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    assert len(found) > 100
    return found


def called(node: ast.Call) -> str:
    """Returns "run" for both run(...) and command.run(...)."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in node.keywords if each.arg == name), None)


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yields the location of each call of one of these functions, and the call."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called(node) in names:
                yield f"{path}:{node.lineno}", node


def is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def test_the_output_of_a_run_with_any_exit_code_is_used():
    """code=None accepts every exit code except that of a defect, so the output must be checked."""
    thrown_away = [f"{path}:{node.lineno}" for path, tree in trees().items() for node in ast.walk(tree)
                   if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) in RUNS
                   and is_none(keyword(node.value, "code")) and keyword(node.value, "code") is not None]
    assert list(calls(RUNS))
    assert thrown_away == []


def test_every_zip_states_if_lengths_may_differ():
    """A comparison of two lists by plain zip passes if one of them is empty."""
    found = list(calls({"zip"}))
    assert len(found) > 50
    assert [where for where, node in found if keyword(node, "strict") is None and not is_argument_list(node)] == []


def is_argument_list(node: ast.Call) -> bool:
    """Returns true for zip(*rows), which transposes."""
    return len(node.args) == 1 and isinstance(node.args[0], ast.Starred)


def test_every_skip_has_a_reason():
    found = list(calls({"skip", "skipif"}))
    assert found
    assert [where for where, node in found if not node.args or (called(node) == "skipif" and not keyword(node, "reason"))] == []


def test_a_skip_that_is_not_in_the_table_is_reported():
    allowed = ("ops/test_archives.py::test_operator[x]", "torch.export has other operators")
    assert skips.unexpected([allowed]) == []
    assert "does not allow" in skips.unexpected([("cli/test_files.py::test_names", "no reason")])[0]
    limit = next(row.at_most for row in skips.TABLE if row.tests.startswith("ops/test_archives"))
    assert "were skipped" in skips.unexpected([allowed] * (limit + 1))[0]


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{path}:{node.lineno} {node.name}", node


def looks(function: ast.FunctionDef, judges: set[str]) -> bool:
    """Returns true if the function asserts, expects an exception or calls one of `judges`."""
    def is_look(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            name = called(node)
            return name in judges or name.startswith(("assert_", "check_")) or name in {"raises", "warns", "fail"}
        return isinstance(node, (ast.Assert, ast.Raise))

    return any(map(is_look, ast.walk(function)))


def test_every_test_asserts_something():
    """Directly or by a helper function that asserts; running the command asserts its exit code."""
    judges: set[str] = set()
    while more := {function.name for _, function in functions() if looks(function, judges)} - judges:
        judges |= more
    tests = [(where, function) for where, function in functions() if function.name.startswith("test_")]
    assert len(tests) > 1000 and "run" in judges
    assert [where for where, function in tests if not looks(function, judges)] == []


def test_tests_that_share_files_share_a_process(request):
    """pytest-xdist 3.8 silently stops grouping tests under pytest 9.2, which stores their names in another field."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@" + str(request.node.path)), request.node.nodeid
