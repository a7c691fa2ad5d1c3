"""Networks on spectra, with both native backends and at other lengths: a spectrum masked by a recurrent network, which
stays one node, and spectra converted to real channels and back, as in htdemucs."""

import onnx
import pytest
import torch
import torch.nn.functional as F
import whence

from command import run

pytestmark = pytest.mark.usefixtures("quiet")
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


class Masked(torch.nn.Module):
    """float32[batch, time] -> float32[batch, time]"""

    def __init__(self, recurrent: str, frame: int, hop: int, length: int):
        super().__init__()
        self.frame, self.hop, self.length = frame, hop, length
        size = frame // 2 + 1
        options = {"batch_first": True, "bidirectional": recurrent == "LSTM"}
        self.recurrent = getattr(torch.nn, recurrent)(size, 6, **options)
        self.out = torch.nn.Linear(12 if options["bidirectional"] else 6, size)
        self.register_buffer("window", torch.hann_window(length))

    def forward(self, wav):
        z = torch.stft(wav, self.frame, self.hop, self.length, self.window, return_complex=True)
        states = self.recurrent(z.abs().transpose(1, 2))[0]
        z = z * torch.sigmoid(self.out(states)).transpose(1, 2)
        return torch.istft(z, self.frame, self.hop, self.length, self.window)


class Channels(torch.nn.Module):
    """float32[batch, 2, time] -> float32[batch, 2, time]: a convolution on spectra as real channels, whose last
    frequency is removed and restored, plus a network on the samples."""

    FRAME = 32

    def __init__(self):
        super().__init__()
        self.on_spectra = torch.nn.Conv2d(4, 4, (3, 3), padding=1)
        self.on_samples = torch.nn.Conv1d(2, 2, 3, padding=1)

    def forward(self, mix):
        batch, channels, length = mix.shape
        frame, hop = self.FRAME, self.FRAME // 4
        padding = hop // 2 * 3
        x = F.pad(mix, (padding, padding + hop), mode="reflect").reshape(batch * channels, -1)
        z = torch.stft(x, frame, hop, frame, torch.hann_window(frame).to(x), normalized=True, return_complex=True)
        z = z.view(batch, channels, z.shape[-2], z.shape[-1])[..., :-1, 2:-2]
        frequencies, frames = z.shape[-2:]
        x = torch.view_as_real(z).permute(0, 1, 4, 2, 3).reshape(batch, channels * 2, frequencies, frames)
        mean, std = x.mean(dim=(1, 2, 3), keepdim=True), x.std(dim=(1, 2, 3), keepdim=True)
        x = self.on_spectra((x - mean) / (1e-5 + std)) * std + mean
        z = torch.view_as_complex(x.view(batch, channels, 2, frequencies, frames).permute(0, 1, 3, 4, 2).contiguous())
        z = F.pad(F.pad(z, (0, 0, 0, 1)), (2, 2)).view(batch * channels, frequencies + 1, frames + 4)
        y = torch.istft(z, frame, hop, window=torch.hann_window(frame).to(z.real), win_length=frame, normalized=True,
                        length=length + 2 * padding).view(batch, channels, -1)
        return y[..., padding:padding + length] + self.on_samples(mix)


MASKED = {"gru": Masked("GRU", 64, 16, 64), "lstm": Masked("LSTM", 30, 10, 24)}


def check(program, model, *sizes):
    for size in sizes:
        x = torch.randn(*size)
        with torch.no_grad():
            torch.testing.assert_close(program(x)[0], model(x), **TOLERANCE)


def recurrent_nodes(path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node if node.op_type in ("GRU", "LSTM")]


@pytest.mark.parametrize("backend", ["native", "native-export"])
@pytest.mark.parametrize("name", MASKED)
def test_masked_spectrum(name, backend, tmp_path):
    model, path = MASKED[name].eval(), tmp_path / "model.onnx"
    program = whence.export(model, (torch.randn(2, 320),), path, backend=backend,
                            dynamic_shapes={"wav": {0: "batch", 1: "time"}})
    assert program.backend == backend and recurrent_nodes(path) == [name.upper()]
    check(program, model, (2, 320), (2, 500), (3, 1601), (5, 100))


@pytest.mark.parametrize("name", MASKED)
def test_masked_spectrum_of_a_scripted_model(name, tmp_path):
    model = MASKED[name].eval()
    torch.jit.script(model).save(tmp_path / "model.pt")
    torch.save((torch.randn(2, 320),), tmp_path / "inputs.pt")
    run("export", tmp_path / "model.pt", "-o", tmp_path / "model.onnx", "--inputs", tmp_path / "inputs.pt",
        "--dynamic", "wav:0=batch,1=time")
    assert recurrent_nodes(tmp_path / "model.onnx") == [name.upper()]
    for size in (2, 500), (1, 96), (3, 1601):
        assert whence.verify(tmp_path / "model.onnx", model, (torch.randn(*size),)).ok, size


def test_spectra_as_channels_at_any_length():
    torch.manual_seed(0)
    model = Channels().eval()
    program = whence.export(model, (torch.randn(2, 2, 400),), dynamic_shapes={"mix": {0: "batch", 2: "time"}})
    assert program.backend == "native"
    check(program, model, (2, 2, 400), (1, 2, 401), (3, 2, 1007), (1, 2, 72))


def test_spectra_as_channels_with_torch_export():
    """torch.export fixes the length of istft, because PyTorch declares it as int, not SymInt."""
    torch.manual_seed(0)
    model = Channels().eval()
    program = whence.export(model, (torch.randn(2, 2, 400),), dynamic_shapes={"mix": {0: "batch"}},
                            backend="native-export")
    check(program, model, (2, 2, 400), (3, 2, 400))
