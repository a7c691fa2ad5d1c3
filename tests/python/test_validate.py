"""whence.validate: each keyword has the effect of the command's option."""

import json

import onnx
import pytest
import torch
import whence
from onnx import TensorProto, helper


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def annotated(tmp_path):
    torch.manual_seed(0)
    whence.export(Net().eval(), torch.ones(2, 4), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def with_unknown_node(annotated):
    """Returns the same file with an additional node without a name and a module."""
    model = onnx.load(annotated)
    model.graph.node.append(helper.make_node("Neg", [model.graph.output[0].name], ["more"]))
    model.graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [2, 4]))
    path = annotated.with_name("unknown.onnx")
    onnx.save(model, path)
    return path


def test_export_is_valid(annotated):
    assert whence.validate(annotated, minima=["covered=100"], required=["first", "second"]).clean


def test_min_covered(with_unknown_node):
    name = ["node_name_empty"]
    assert whence.validate(with_unknown_node, allowed=name, min_covered=50).clean
    assert not whence.validate(with_unknown_node, allowed=name, min_covered=100).clean


def test_minima(with_unknown_node):
    name = ["node_name_empty"]
    assert whence.validate(with_unknown_node, allowed=name, minima=["covered=50", "covered=100@first"]).clean
    assert not whence.validate(with_unknown_node, allowed=name, minima=["covered=50", "covered=100@op:Neg"]).clean


def test_required(annotated):
    assert whence.validate(annotated, required=["second"]).clean
    assert not whence.validate(annotated, required=["second", "third"]).clean


def test_baseline(annotated, with_unknown_node):
    name = ["node_name_empty"]
    assert whence.validate(with_unknown_node, allowed=name).clean
    assert not whence.validate(with_unknown_node, allowed=name, baseline=annotated).clean
    assert whence.validate(annotated, baseline=with_unknown_node).clean


def test_allowed(with_unknown_node):
    assert not whence.validate(with_unknown_node).clean
    assert whence.validate(with_unknown_node, allowed=["V101"]).clean


def test_config(annotated, with_unknown_node):
    config = annotated.with_name("team.json")
    config.write_text(json.dumps({"allow": ["V101"], "min": ["covered=50"]}))
    assert whence.validate(with_unknown_node, config=config).clean
    assert not whence.validate(with_unknown_node, config=config, minima=["covered=100"]).clean


def test_full(annotated):
    """onnx's checker also detects an attribute that the operator does not have."""
    model = onnx.load(annotated)
    model.graph.node[0].attribute.append(helper.make_attribute("colour", 1))
    onnx.save(model, annotated)
    assert whence.validate(annotated).clean
    assert not whence.validate(annotated, full=True).clean


@pytest.mark.parametrize("keyword, value", [("minima", ["covered"]), ("allowed", ["V999"]), ("minima", "covered=99"),
                                            ("required", "first"), ("allowed", "V101")])
def test_invalid_arguments_are_errors(annotated, keyword, value):
    with pytest.raises(whence.WhenceError) as raised:
        whence.validate(annotated, **{keyword: value})
    assert raised.value.code == "E0101"
