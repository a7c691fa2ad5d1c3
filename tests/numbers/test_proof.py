"""Values that prove annotations: whence validate --values, and whence accuracy's report on exchanged modules."""

import json

import jsonschema
import onnx
import pytest
import torch
from torch import nn

import command
import whence
from numbers_models import Encoder, example

SCHEMA = jsonschema.Draft202012Validator(json.loads((command.ROOT / "schema" / "validate.schema.json").read_text()))
QUERY, KEY = "layers.0.attention.query", "layers.0.attention.key"


def exchange_annotations(source, target):
    """Exchanges the annotations of two modules, but not their weights."""
    model = onnx.load(source)
    for node in model.graph.node:
        for entry in node.metadata_props:
            entry.value = {QUERY: KEY, KEY: QUERY}.get(entry.value, entry.value)
    onnx.save(model, target)
    return target


def test_annotations_of_a_correct_file_are_proved(encoder, run_main):
    values = encoder / "encoder.values.safetensors"
    result = command.run("validate", encoder / "encoder.onnx", "--values", values)
    plain = command.run("validate", encoder / "encoder.onnx").stdout
    assert result.stdout.startswith(plain)  # the proof follows the plain output
    assert "values: 28 of 28 module calls proved within 1e-05, 28 observable" in result.stdout
    document = json.loads(run_main("validate", encoder / "encoder.onnx", "--values", values, "--sidecar",
                                   encoder / "encoder.whence.json", "--json").out)
    SCHEMA.validate(document)
    assert document["proof"]["proved"] == document["proof"]["calls"] == 28 and not document["proof"]["contradictions"]


def test_exchanged_annotations_are_contradicted(encoder, tmp_path, run_main):
    path = exchange_annotations(encoder / "encoder.onnx", tmp_path / "m.onnx")
    values = encoder / "encoder.values.safetensors"
    report = whence.validate(path, values=values)
    assert {(row.module, row.other) for row in report.proof.contradictions} == {(QUERY, KEY), (KEY, QUERY)}
    assert not report.clean and report.proof.proved == 26
    assert run_main("validate", path, "--values", values, code=1).out.count("but equals the result of") == 2
    assert "is the annotation right?" in str(whence.accuracy(path, values))


def test_a_wrong_weight_is_not_a_contradiction(encoder, export_changed):
    def change(model):
        model.layers[0].attention.key.weight.data = model.layers[0].attention.key.weight.data.roll(1, 0)

    report = whence.validate(export_changed(change), values=encoder / "encoder.values.safetensors")
    assert report.clean and not report.proof.contradictions and 0 < report.proof.proved < 28


class AmbiguousResults(nn.Module):
    """Two modules with equal results, one with a constant result, and one with a unique result."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.same, self.other, self.zero = (nn.Linear(8, 8) for _ in range(4))
        self.same.load_state_dict(self.one.state_dict())
        self.zero.weight.data.zero_()
        self.zero.bias.data.zero_()

    def forward(self, x):
        return self.one(x) + self.zero(x), self.same(x) * 2, self.other(x)


def test_ambiguous_values_prove_nothing(tmp_path):
    model, x = AmbiguousResults().eval(), torch.randn(3, 8)
    values = whence.record_values(model, (x,))
    whence.export(model, (x,), tmp_path / "m.onnx")
    report = whence.accuracy(tmp_path / "m.onnx", values)
    proved = {row.module for row in report.modules if row.proved}
    assert "other" in proved and not proved & {"one", "same", "zero"}
    assert {row.status for row in report.modules} == {"equal"}


@pytest.mark.parametrize(("arguments", "code"), [(["--values", "no"], 2), (["--format", "sarif"], 2), (["--frobnicate"], 2),
                                                 (["--min", "exact=101"], 2), (["--require", "nothing"], 1)])
def test_options_of_validate_are_checked_with_values(encoder, run_main, arguments, code):
    result = run_main("validate", encoder / "encoder.onnx", "--values", encoder / "encoder.values.safetensors", *arguments,
                      code=code)
    assert (code == 1) == ("V502" in result.out) and (code == 2) == result.err.startswith("E0")


def test_every_option_of_validate_is_accepted_with_values(encoder):
    import re

    from whence.numerics import validate_command

    help_text = command.run("validate", "--help").stdout
    documented = set(re.findall(r"--[a-z-]+", help_text.split("options:")[1].split("examples:")[0]))
    accepted = {option for action in validate_command.parser()._actions for option in action.option_strings}
    assert documented - {"--help"} <= accepted | {"--validate"}, documented - accepted
    assert whence.record_values(Encoder(), example()).runs
