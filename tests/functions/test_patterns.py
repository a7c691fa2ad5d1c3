"""`re:PATTERN`: every option that takes globs of modules, and lists of names, takes regular expressions as well."""

import pytest

import command
from functions import graphs
from functions.graphs import node

LAYERS = ["", "layers.0", "layers.0.norm", "layers.1", "layers.1.norm", "layers.10", "head"]


@pytest.fixture
def path(tmp_path):
    """Three nodes for each module, in a chain."""
    file = tmp_path / "model.onnx"
    nodes = [node(("Relu", "Abs", "Exp")[i % 3], [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(3 * len(LAYERS))]
    nodes[-1].output[0] = "y"
    for i, each in enumerate(nodes):
        each.metadata_props.add(key="pkg.whence.module", value=LAYERS[i // 3])
        each.metadata_props.add(key="pkg.whence.call", value="0")
        each.metadata_props.add(key="pkg.whence.confidence", value="exact" if LAYERS[i // 3] != "head" else "ancestor")
    graphs.model(nodes, [], {"x": [3]}, ["y"], file)
    return file


# A subcommand with its options, a glob where {} stands, and an expression that means the same modules.
OPTIONS = [
    (["select", "--modules", "{}"], "layers.?", "re:layers\\.\\d"),
    (["select", "--not", "{}"], "**.norm", "re:.*\\.norm"),
    (["show", "--select", "{}"], "layers.1*", "re:layers\\.1[^.]*"),
    (["validate", "--require", "{}"], "h*", "re:he.."),
    (["validate", "--min", "exact=100@{}"], "?e*", "re:^he.*d$"),
    (["place", "--default", "cpu", "--rule", "gpu={}"], "layers.[0-1]", "re:layers\\.(0|1)"),
    (["functions", "-o", "OUT", "--modules", "{}"], "layers.*", "re:layers\\.\\d+"),
    (["extract", "-o", "OUT", "--modules", "{}"], "layers.[0-1]", "re:layers\\.[0-1]"),
]


def words(path, options, pattern):
    subcommand, *rest = options
    return [subcommand, path, *(word.replace("{}", pattern).replace("OUT", str(path.parent / "out.onnx")) for word in rest)]


@pytest.mark.parametrize("options, glob, expression", OPTIONS, ids=[" ".join(row[0][:1] + row[0][-2:]) for row in OPTIONS])
def test_an_expression_chooses_what_its_glob_chooses(path, options, glob, expression):
    out = path.parent / "out.onnx"
    results = []
    for pattern in (glob, expression, "layers.10"):
        out.unlink(missing_ok=True)
        result = command.run(*words(path, options, pattern), code=None)
        assert result.returncode == (1 if options[0] == "validate" and pattern != "layers.10" else 0), result.stderr
        results.append((result.stdout, out.read_bytes() if "OUT" in options else b""))
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize("options", [options for options, _, _ in OPTIONS] + [
    ["select", "--ops", "{}"], ["validate", "--allow", "{}"], ["validate", "--min", "exact=1@op:{}"],
    ["validate", "--tolerance", "{}=1"], ["annotate", "-o", "OUT", "--min", "exact=1@{}"]],
    ids=" ".join)
def test_a_bad_expression_is_an_error_that_names_the_piece(path, options):
    said = command.run(*words(path, options, "re:layers.[0-9"), code=2).stderr
    assert said.startswith("E0101") and "missing ]: [0-9" in said
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_lists_of_names_take_an_expression_at_their_end(path):
    def chosen(ops):
        return command.run("select", path, "--ops", ops, "--modules", "head").stdout.split()

    assert len(chosen("re:(Relu|Ab.)")) == 2 and len(chosen("Exp,re:R.{1,3}")) == 2
    command.run("select", path, "--ops", "re:Rel", code=2)


def test_gates_take_expressions_of_operators_and_codes(path):
    def shortfalls(*options, code):
        return [(each["subject"], each["allowed"]) for each in command.run_json("validate", path, *options, code=code)["shortfalls"]]

    gate = ["--min", "exact=90@op:re:(Relu|Abs)"]
    assert shortfalls(*gate, code=1) == [("Abs", False), ("Relu", False)]
    assert shortfalls(*gate, "--allow", "re:V5.*", code=0) == [("Abs", True), ("Relu", True)]
    assert shortfalls(*gate, "--tolerance", "re:V50[1-3]=1", code=0) == [("Abs", True), ("Relu", True)]
    assert "there is no check" in command.run("validate", path, "--allow", "re:V7.*", code=2).stderr
