"""--dynamic for tensors in tuple, list or dict arguments, and for axes counted from the end."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5)

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        y, (h, c) = self.lstm(x, state)
        return y.flatten(1), h, c


class DictAndList(nn.Module):
    def forward(self, parts: dict[str, torch.Tensor], rest: list[torch.Tensor]):
        return parts["a"] @ parts["b"].mT, torch.cat([tensor.sum(-1) for tensor in rest])


@pytest.fixture(scope="module", autouse=True)
def seed_torch():
    torch.manual_seed(0)


def save_archive(folder, module, inputs, script=False):
    module = module.eval()
    saved = torch.jit.script(module) if script else torch.jit.trace(module, inputs, strict=False)
    saved.save(str(folder / "m.pt"))
    torch.save(inputs, folder / "inputs.pt")
    return module


def export(folder, *options, code=0):
    return command.run("export", folder / "m.pt", "--inputs", folder / "inputs.pt", "-o", folder / "m.onnx", *options,
                       code=code)


def check(folder, module, inputs, tensors):
    onnx.checker.check_model(str(folder / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    results = session.run(None, dict(zip(names, [tensor.numpy() for tensor in tensors], strict=True)))
    for actual, expected in zip(results, module(*inputs), strict=True):
        np.testing.assert_allclose(actual, expected.detach(), rtol=1e-4, atol=1e-5)


def state(batch):
    return torch.randn(1, batch, 5), torch.randn(1, batch, 5)


@pytest.mark.parametrize("names, dynamic", [
    ([], ["x:0=t,1=batch", "state.0:1=batch", "state.1:-2=batch"]),
    (["--input-names", "x,h0,c0"], ["x:-3=t,-2=batch", "h0:1=batch", "c0:1=batch"]),
])
@pytest.mark.parametrize("script", [False, True])
def test_dynamic_states_of_a_recurrent_layer(tmp_path, names, dynamic, script):
    module = save_archive(tmp_path, Recurrent(), (torch.randn(3, 2, 4), state(2)), script)
    export(tmp_path, *names, *(word for axes in dynamic for word in ("--dynamic", axes)))
    assert [value.name for value in onnx.load(tmp_path / "m.onnx").graph.input][1:] == (
        ["h0", "c0"] if names else ["state.0", "state.1"])
    for steps, batch in ((3, 2), (6, 5), (1, 1)):
        inputs = (torch.randn(steps, batch, 4), state(batch))
        check(tmp_path, module, inputs, (inputs[0], *inputs[1]))


def test_dynamic_tensors_in_dicts_and_lists(tmp_path):
    def inputs(n, m):
        return {"a": torch.randn(n, 3), "b": torch.randn(m, 3)}, [torch.randn(n, 4), torch.randn(m, 2)]

    module = save_archive(tmp_path, DictAndList(), inputs(2, 5), script=True)
    export(tmp_path, *(word for axes in ("parts.a:0=n", "parts.b:0=m", "rest.0:0=n", "rest.1:-2=m")
                       for word in ("--dynamic", axes)))
    for n, m in ((2, 5), (4, 1), (7, 3)):
        parts, rest = arguments = inputs(n, m)
        check(tmp_path, module, arguments, (parts["a"], parts["b"], *rest))


@pytest.mark.parametrize("spec, fragment", [
    ("state:0=n", "name its tensors: state.0:0=batch"),
    ("h:0=n", "its arguments are: x, state; tensors in them have names such as state.0"),
    ("state.2:0=n", "forward has no argument 'state.2'"),
    ("x:-4=n", "has no axis -4; try: its rank is 3"),
    ("x:1=n,-2=m", "is named twice"),
])
def test_unknown_names_and_axes_are_refused(tmp_path, spec, fragment):
    save_archive(tmp_path, Recurrent(), (torch.randn(3, 2, 4), state(2)))
    refusal = export(tmp_path, "--dynamic", spec, code=2).stderr
    assert "E0104" in refusal and fragment in refusal and not (tmp_path / "m.onnx").exists()
