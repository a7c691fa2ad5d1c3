"""Tables of learned positions, whose rows a recording chooses by constants and builders of language models by an input."""

import json

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

from command import run

WIDTH, ROWS = 16, 40


class Tokens(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(ROWS, WIDTH), torch.nn.Embedding(ROWS, WIDTH)
        self.head = torch.nn.Linear(WIDTH, ROWS, bias=False)

    def forward(self, input_ids):
        places = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        return self.head(torch.relu(self.words(input_ids) + self.places(places)))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chosen_rows")
    torch.manual_seed(2)
    model, ids = Tokens().eval(), torch.arange(18).reshape(2, 9)
    with torch.no_grad(), whence.record(folder / "model.whence.json"):
        torch.export.export(model, (ids,))
    save_file({name: each.contiguous() for name, each in model.state_dict().items()}, folder / "w.safetensors")
    return folder, {name: each.detach().numpy() for name, each in model.state_dict().items()}


def attest(recorded, change, code):
    folder, weights = recorded
    nodes = [helper.make_node("Gather", ["words.weight", "input_ids"], ["words"]),
             helper.make_node("Gather", ["places.weight", "position_ids"], ["places"]),
             helper.make_node("Add", ["words", "places"], ["sum"]),
             helper.make_node("Relu", ["sum"], ["active"]),
             helper.make_node("MatMul", ["active", "head.weight_t"], ["logits"])]
    tensors = {"words.weight": weights["words.weight"], "places.weight": weights["places.weight"],
               "head.weight_t": np.ascontiguousarray(weights["head.weight"].T)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
              for name in ("input_ids", "position_ids")]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", ROWS])
    graph = helper.make_graph(nodes, "main", inputs, [output],
                              [numpy_helper.from_array(each, name) for name, each in tensors.items()])
    change(graph)
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]),
              folder / "model.onnx")
    done = run("attest", folder / "model.onnx", "--weights", folder / "w.safetensors", "--sidecar",
               folder / "model.whence.json", "--json", code=code)
    return json.loads(done.stdout)["predicate"]


def shift(graph):
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one"))
    graph.node.insert(0, helper.make_node("Add", ["position_ids", "one"], ["shifted"]))
    graph.node[2].input[1] = "shifted"


CHANGES = {"the rows after": shift,
           "positions by tokens": lambda graph: graph.node[1].input.__setitem__(1, "input_ids"),
           "words by positions": lambda graph: graph.node[0].input.__setitem__(1, "position_ids"),
           "exchanged tables": lambda graph: (graph.node[0].input.__setitem__(0, "places.weight"),
                                              graph.node[1].input.__setitem__(0, "words.weight"))}


def test_positions_may_be_an_input(recorded):
    attest(recorded, lambda graph: None, 0)


@pytest.mark.parametrize("change", CHANGES)
def test_other_rows_are_found(recorded, change):
    attest(recorded, CHANGES[change], 1)
