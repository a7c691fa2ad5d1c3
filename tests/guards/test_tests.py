"""Searches the syntax trees of the tests for tests that cannot fail."""

import ast
from functools import cache
from typing import Iterator

import command
import skips

TESTS = command.ROOT / "tests"
RUNS = {"run", "run_json", "run_process", "run_quickly"}


@cache
def trees() -> dict[str, ast.Module]:
    trees_by_path = {str(path.relative_to(command.ROOT)): ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    assert len(trees_by_path) > 100
    return trees_by_path


def function_name(node: ast.Call) -> str:
    """Returns "run" for both run(...) and command.run(...)."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((argument.value for argument in node.keywords if argument.arg == name), None)


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yields (location, call) of each call of these functions."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and function_name(node) in names:
                yield f"{path}:{node.lineno}", node


def is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def test_runs_that_accept_any_exit_code_check_the_output():
    """code=None accepts every exit code except that of an internal error."""
    unchecked = [f"{path}:{node.lineno}" for path, tree in trees().items() for node in ast.walk(tree)
                 if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and function_name(node.value) in RUNS
                 and is_none(keyword(node.value, "code")) and keyword(node.value, "code") is not None]
    assert list(calls(RUNS))
    assert unchecked == []


def test_every_zip_specifies_strict():
    """Comparing two lists with zip would pass if one of them is empty."""
    zips = list(calls({"zip"}))
    assert len(zips) > 50
    assert [where for where, node in zips if keyword(node, "strict") is None and not is_argument_list(node)] == []


def is_argument_list(node: ast.Call) -> bool:
    """Returns True for zip(*rows), which transposes."""
    return len(node.args) == 1 and isinstance(node.args[0], ast.Starred)


def test_every_skip_has_a_reason():
    skip_calls = list(calls({"skip", "skipif"}))
    assert skip_calls
    assert [where for where, node in skip_calls if not node.args or (function_name(node) == "skipif" and not keyword(node, "reason"))] == []


def test_unexpected_skips_are_reported():
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


def can_fail(function: ast.FunctionDef, asserting: set[str]) -> bool:
    """Returns True if the function asserts, expects an exception or calls a function in `asserting`."""
    def is_check(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            name = function_name(node)
            return name in asserting or name.startswith(("assert_", "check_")) or name in {"raises", "warns", "fail"}
        return isinstance(node, (ast.Assert, ast.Raise))

    return any(map(is_check, ast.walk(function)))


def test_every_test_asserts_something():
    """A helper function may assert. Running the command asserts the exit code."""
    asserting: set[str] = set()
    while new := {function.name for _, function in functions() if can_fail(function, asserting)} - asserting:
        asserting |= new
    tests = [(where, function) for where, function in functions() if function.name.startswith("test_")]
    assert len(tests) > 1000 and "run" in asserting
    assert [where for where, function in tests if not can_fail(function, asserting)] == []


def test_tests_that_share_files_share_a_process(request):
    """pytest-xdist 3.8 silently stops grouping with pytest 9.2, which stores the names of tests in another field."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@" + str(request.node.path)), request.node.nodeid


def test_modules_of_tests_have_names_of_their_own():
    """Each folder of a test is on the search path of all later tests, so the first of two modules would be used for both."""
    modules = [path for path in TESTS.rglob("*.py") if not (path.parent / "__init__.py").is_file()]
    packages = [path.parent for path in TESTS.rglob("__init__.py")]
    importable = [path for path in modules if any(path.parent.glob("test_*.py"))]
    names = [path.stem for path in importable if path.stem not in {"conftest", "run"}]  # nobody imports a run.py
    names += [path.name for path in packages if path.parent == TESTS]
    assert len(names) > 100
    assert sorted({name for name in names if names.count(name) > 1}) == []
