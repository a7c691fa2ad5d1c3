"""whence attest on products that are parts of one recorded product, as query, key and value of GPT-2."""

from types import SimpleNamespace

import onnx
import pytest
import torch
import whence
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import small_models as models
from test_attest import attest, unaccounted

HEADS, SIZE = 2, 16
PARTS = ("query", "key", "value")


class Split(nn.Module):
    """An attention with one product on rows, whose columns are split into equal parts."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(SIZE, 3 * SIZE) / 4), nn.Parameter(torch.randn(3 * SIZE) / 4)
        self.last = nn.Linear(SIZE, SIZE)

    def forward(self, x):
        joined = torch.addmm(self.bias, x.view(-1, SIZE), self.weight).view(*x.shape[:-1], 3 * SIZE)
        query, key, value = (part.view(*x.shape[:-1], HEADS, -1).transpose(1, 2) for part in joined.split(SIZE, dim=2))
        result = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.last(result.transpose(1, 2).reshape(x.shape))


def written(model):
    """Returns the file as mobius writes it: one product for each part."""
    nodes, tensors = [], [numpy_helper.from_array(model.last.weight.detach().T.contiguous().numpy(), "last.weight"),
                          numpy_helper.from_array(model.last.bias.detach().numpy(), "last.bias")]
    for at, name in enumerate(PARTS):
        columns = slice(at * SIZE, (at + 1) * SIZE)
        tensors.append(numpy_helper.from_array(model.weight.detach()[:, columns].contiguous().numpy(), f"{name}.weight"))
        tensors.append(numpy_helper.from_array(model.bias.detach()[columns].contiguous().numpy(), f"{name}.bias"))
        nodes += [helper.make_node("MatMul", ["x", f"{name}.weight"], [f"{name}.product"]),
                  helper.make_node("Add", [f"{name}.product", f"{name}.bias"], [name])]
    nodes += [helper.make_node("Attention", list(PARTS), ["result"], "attention", q_num_heads=HEADS, kv_num_heads=HEADS),
              helper.make_node("MatMul", ["result", "last.weight"], ["last.product"]),
              helper.make_node("Add", ["last.product", "last.bias"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 5, SIZE]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    torch.manual_seed(1)
    model = Split().eval()
    made = SimpleNamespace(weights=models.save_weights(model, folder / "model.safetensors"),
                           sidecar=folder / "model.whence.json", path=folder / "model.onnx")
    with whence.record(made.sidecar):
        torch.export.export(model, (torch.randn(2, 5, SIZE),))
    onnx.save(written(model), made.path)
    return made


def test_the_file_is_accounted_for(files):
    assert unaccounted(attest(files.path, files)) == ([], [])


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (0, 2)])
def test_exchanged_parts_are_found(files, tmp_path, one, other):
    model = onnx.load(files.path)
    attention = next(node for node in model.graph.node if node.op_type == "Attention")
    attention.input[one], attention.input[other] = attention.input[other], attention.input[one]
    onnx.save(model, tmp_path / "changed.onnx")
    assert "attention" in unaccounted(attest(tmp_path / "changed.onnx", files, code=1))[1]
