"""The stored table of PyTorch's node counts is up to date; export needs no inputs file if the trace contains shapes."""

import onnx
import pytest

import command
from models import baselines, zoo


def test_the_stored_table_covers_the_zoo():
    assert baselines.read_table()["nodes"].keys() == zoo.MODELS.keys()


def test_row_of_bert_tiny_is_current():
    assert baselines.read_table()["nodes"]["bert_tiny"] == baselines.measure("bert_tiny")


@pytest.mark.parametrize("name", ["bert_tiny", "shared_block"])
def test_shapes_of_the_trace_replace_an_inputs_file(name, tmp_path):
    with_inputs, without = tmp_path / "with.onnx", tmp_path / "without.onnx"
    command.run("export", zoo.trace(name), "-o", with_inputs, "--inputs", zoo.inputs_file(name))
    command.run("export", zoo.trace(name), "-o", without)
    graphs = [onnx.load(path).graph for path in (with_inputs, without)]
    assert [node.op_type for node in graphs[0].node] == [node.op_type for node in graphs[1].node]


def test_exporting_twice_gives_the_same_bytes(tmp_path):
    paths = [tmp_path / "one.onnx", tmp_path / "two.onnx"]
    for path in paths:
        command.run("export", zoo.trace("bert_tiny"), "-o", path, "--inputs", zoo.inputs_file("bert_tiny"),
                    own_process=True)
    assert paths[0].read_bytes() == paths[1].read_bytes()
