"""Tables too large to be stored in the file are computed at run time, and equal PyTorch's."""

import onnxruntime
import pytest
import torch

import command


@pytest.mark.parametrize("function, shape", [
    (lambda x: x.repeat_interleave(9001, 1)[:, ::4001], (1, 2000)),
    (lambda x: (x.sum() + torch.linspace(-1, 1, 2**24 + 5))[::5000], (3,)),
    (lambda x: torch.nn.functional.adaptive_avg_pool1d(x, 4001), (1, 1, 4200)),
])
def test_a_large_table_is_computed_at_run_time(function, shape, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    torch.export.save(torch.export.export(Model(), (torch.rand(shape),)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_size < 1 << 20
    x = torch.rand(shape)
    (result,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), function(x), rtol=1e-4, atol=1e-5)
