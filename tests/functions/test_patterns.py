"""Every option that accepts globs of modules or lists of names also accepts regular expressions: `re:PATTERN`."""

import pytest

import command
from functions import graphs
from functions.graphs import node

LAYERS = ["", "layers.0", "layers.0.norm", "layers.1", "layers.1.norm", "layers.10", "head"]


@pytest.fixture
def path(tmp_path):
    """Saves a chain of nodes, three for each module."""
    file = tmp_path / "model.onnx"
    nodes = [node(("Relu", "Abs", "Exp")[i % 3], [f"v{i}" if i else "x"], [f"v{i + 1}"])
             for i in range(3 * len(LAYERS))]
    nodes[-1].output[0] = "y"
    for i, proto in enumerate(nodes):
        proto.metadata_props.add(key="pkg.whence.module", value=LAYERS[i // 3])
        proto.metadata_props.add(key="pkg.whence.call", value="0")
        proto.metadata_props.add(key="pkg.whence.confidence", value="exact" if LAYERS[i // 3] != "head" else "ancestor")
    graphs.model(nodes, [], {"x": [3]}, ["y"], file)
    return file


# (subcommand with {} for the pattern, glob, expression that matches the same modules as the glob)
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


def command_words(path, options, pattern):
    subcommand, *arguments = options
    output = str(path.parent / "out.onnx")
    return [subcommand, path, *(word.replace("{}", pattern).replace("OUT", output) for word in arguments)]


@pytest.mark.parametrize("options, glob, expression", OPTIONS,
                         ids=[" ".join(row[0][:1] + row[0][-2:]) for row in OPTIONS])
def test_an_expression_selects_the_same_modules_as_its_glob(path, options, glob, expression):
    out = path.parent / "out.onnx"
    results = []
    for pattern in (glob, expression, "layers.10"):
        out.unlink(missing_ok=True)
        result = command.run(*command_words(path, options, pattern), code=None)
        assert result.returncode == (1 if options[0] == "validate" and pattern != "layers.10" else 0), result.stderr
        results.append((result.stdout, out.read_bytes() if "OUT" in options else b""))
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize("options", [options for options, _, _ in OPTIONS] + [
    ["select", "--ops", "{}"], ["validate", "--allow", "{}"], ["validate", "--min", "exact=1@op:{}"],
    ["validate", "--tolerance", "{}=1"], ["annotate", "-o", "OUT", "--min", "exact=1@{}"]],
    ids=" ".join)
def test_an_invalid_expression_is_reported(path, options):
    stderr = command.run(*command_words(path, options, "re:layers.[0-9"), code=2).stderr
    assert stderr.startswith("E0101") and "missing ]: [0-9" in stderr
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_a_list_of_names_may_contain_an_expression(path):
    def selected(ops):
        return command.run("select", path, "--ops", ops, "--modules", "head").stdout.split()

    assert len(selected("re:(Relu|Ab.)")) == 2 and len(selected("Exp,re:R.{1,3}")) == 2
    command.run("select", path, "--ops", "re:Rel", code=2)


def test_gates_accept_expressions_for_operators_and_codes(path):
    def shortfalls(*options, code):
        report = command.run_json("validate", path, *options, code=code)
        return [(shortfall["subject"], shortfall["allowed"]) for shortfall in report["shortfalls"]]

    gate = ["--min", "exact=90@op:re:(Relu|Abs)"]
    assert shortfalls(*gate, code=1) == [("Abs", False), ("Relu", False)]
    assert shortfalls(*gate, "--allow", "re:V5.*", code=0) == [("Abs", True), ("Relu", True)]
    assert shortfalls(*gate, "--tolerance", "re:V50[1-3]=1", code=0) == [("Abs", True), ("Relu", True)]
    assert "there is no check" in command.run("validate", path, "--allow", "re:V7.*", code=2).stderr
