"""Bugs of onnxscript's operators, which PyTorch's dynamo exporter converts ATen operations with."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, torchscript

OLD = ("torch==2.9.1", "onnxscript==0.5.0", "onnx_ir==0.1.12")
V056 = ("torch==2.9.1", "onnxscript==0.5.6", "onnx_ir==0.1.12")
NEW = ("torch==2.13.0",)  # with onnxscript 0.7.2, of the main environment
ISSUES = "https://github.com/microsoft/onnxscript/issues/"
PULLS = "https://github.com/microsoft/onnxscript/pull/"
SOURCE = "https://github.com/microsoft/onnxscript/blob/v0.5.0/onnxscript/function_libs/torch_lib/ops/"


def image():
    return (torch.randn(2, 3, 16, 16),)


def tokens():
    return (torch.randint(0, 20, (2, 7)),)


class SpaceToChannels(nn.Module):
    """A restoration network that works at half the resolution, with the details in more channels."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 4, 3, padding=1)
        self.down = nn.PixelUnshuffle(2)
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 12, 3, padding=1))
        self.up = nn.PixelShuffle(2)

    def forward(self, x):
        return x + self.up(self.body(self.down(torch.relu(self.head(x)))))


class MergeImages(nn.Module):
    """Puts image features at the positions of the image tokens."""

    def forward(self, embeddings, is_image, features):
        return embeddings.masked_scatter(is_image.unsqueeze(-1), features)


class VisionLanguage(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.project = nn.Linear(8, 16)
        self.merge = MergeImages()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20)

    def forward(self, ids, patches):
        return self.head(self.norm(self.merge(self.embed(ids), ids == 3, self.project(patches))))


def image_tokens():
    return torch.tensor([[1, 3, 3, 5, 6, 2], [4, 3, 3, 3, 7, 2]]), torch.randn(5, 8)


class CircularShift(nn.Module):
    """Shifts a sequence of frames around its end."""

    def __init__(self, frames):
        super().__init__()
        self.frames = frames

    def forward(self, x):
        return torch.roll(x, self.frames, dims=1)


class Periodic(nn.Module):
    """A forecast from values of a day ago, with a day longer than the window."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 12)
        self.yesterday = CircularShift(24)
        self.mix = nn.Linear(24, 12)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        h = torch.tanh(self.encode(x))
        return self.head(torch.relu(self.mix(torch.cat([h, self.yesterday(h)], -1))))


class ReplaceTokens(nn.Module):
    """Writes learnt vectors to the masked positions."""

    def __init__(self):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(3, 16))

    def forward(self, hidden, masked):
        hidden = hidden.clone()
        hidden[masked] = self.vectors
        return hidden


class PromptTuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.prompt = ReplaceTokens()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        return self.head(self.encoder(self.prompt(self.embed(ids), ids == 0)).mean(1))


def prompt_tokens():
    return (torch.tensor([[0, 4, 9, 1, 0], [7, 3, 0, 2, 8]]),)


class Ties(nn.Module):
    """Marks the scores that equal those of the reversed sequence; masked ones are infinite."""

    def forward(self, scores):
        return torch.isclose(scores, scores.flip(1))


class Palindromes(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 6)
        self.ties = Ties()
        self.head = nn.Linear(6, 3)

    def forward(self, x, padding):
        scores = self.score(x).masked_fill(padding.unsqueeze(-1), float("-inf"))
        return self.head(self.ties(scores).float())


def padded_features():
    return torch.randn(2, 5, 4), torch.tensor([[True, False, False, False, True], [False] * 5])


class SampleFrames(nn.Module):
    """Takes equally spaced frames of a clip."""

    def __init__(self, frames):
        super().__init__()
        self.frames = frames

    def forward(self, x):
        return x[:, torch.linspace(0, x.shape[1] - 1, self.frames, dtype=torch.int64)]


class VideoClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.sample = SampleFrames(4)
        self.conv = nn.Conv1d(6, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.conv(self.sample(x).transpose(1, 2))).mean(-1))


class Likelihood(nn.Module):
    """The probability of a whole sequence."""

    def forward(self, probabilities):
        return probabilities.prod()


class LanguageScore(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.head = nn.Linear(16, 20)
        self.likelihood = Likelihood()

    def forward(self, ids):
        probabilities = self.head(self.embed(ids)).softmax(-1)
        return self.likelihood(5 * probabilities.gather(-1, ids.unsqueeze(-1)).squeeze(-1))


class Hold(nn.Module):
    """Repeats each control value for the samples of its frame."""

    def forward(self, control):
        return control.repeat_interleave(4, dim=0)


class Synthesiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.control = nn.Linear(6, 1)
        self.hold = Hold()
        self.tone = nn.Linear(2, 1)

    def forward(self, frames, noise):
        level = self.hold(torch.sigmoid(self.control(frames)).squeeze(-1))
        return self.tone(torch.stack([level, noise[: level.shape[0]]], -1))


def frames_and_noise():
    return torch.randn(5, 6), torch.randn(20)


class Bucket(nn.Module):
    """Makes small bucket numbers of large identifiers."""

    def forward(self, ids):
        return (ids // 1009) % 16


class HashedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.bucket = Bucket()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(torch.relu(self.embed(self.bucket(ids)).mean(1)))


def large_ids():
    return (torch.randint(2**40, 2**42, (2, 6)),)


class Thumbnail(nn.Module):
    def __init__(self, size, mode, antialias=True):
        super().__init__()
        self.options = {"size": size, "mode": mode, "antialias": antialias, "align_corners": False}

    def forward(self, x):
        return F.interpolate(x, **self.options)


class ThumbnailEncoder(nn.Module):
    """An encoder that first makes its input smaller."""

    def __init__(self, thumbnail):
        super().__init__()
        self.colour = nn.Conv2d(3, 3, 1)
        self.resize = thumbnail
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.conv(self.resize(self.colour(x)))))


class GlobalContext(nn.Module):
    """Segmentation with a context of one pixel, the middle of the image."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.context = Thumbnail((1, 1), "bilinear", antialias=False)
        self.scale = nn.Conv2d(8, 8, 1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        return self.head(h * torch.sigmoid(self.scale(self.context(h))))


class Waveform(nn.Module):
    """A network on one waveform, without a batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.pool = nn.AvgPool1d(4)
        self.head = nn.Conv1d(8, 2, 1)

    def forward(self, x):
        return self.head(self.pool(torch.relu(self.conv(x))))


class Score(nn.Module):
    """A score per token: the product with one vector."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.linear(x, self.weight)


class AttentionPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.encode = nn.Linear(16, 16)
        self.score = Score(16)
        self.head = nn.Linear(16, 3)

    def forward(self, ids):
        h = torch.tanh(self.encode(self.embed(ids)))
        weights = self.score(h).softmax(-1)
        return self.head((weights.unsqueeze(-1) * h).sum(-2))


class PowerSpectrum(nn.Module):
    """The power of each frequency of a frame."""

    def forward(self, frames):
        return torch.view_as_real(torch.fft.rfft(frames)).square().sum(-1)


class SpeechFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        self.emphasis = nn.Conv1d(1, 1, 3, padding=1)
        self.power = PowerSpectrum()
        self.mel = nn.Linear(17, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        frames = self.emphasis(x.unsqueeze(1)).squeeze(1).unflatten(-1, (-1, 32))
        return self.head(torch.log1p(torch.relu(self.mel(self.power(frames)))))


class Envelope(nn.Module):
    """A signal again from its lowest frequencies."""

    def __init__(self, frequencies):
        super().__init__()
        self.register_buffer("gate", (torch.arange(frequencies) < 5).float().unsqueeze(-1))

    def forward(self, x):
        spectrum = torch.view_as_real(torch.fft.rfft(x)) * self.gate
        return torch.fft.irfft(torch.view_as_complex(spectrum), n=x.shape[-1])


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(16, 16)
        self.smooth = Envelope(9)
        self.decode = nn.Linear(16, 16)

    def forward(self, x):
        return self.decode(torch.tanh(self.smooth(self.encode(x))))


class AppendCache(nn.Module):
    """Appends keys to a cache, which is empty at the first step."""

    def __init__(self):
        super().__init__()
        self.register_buffer("empty", torch.zeros(0))

    def forward(self, keys):
        return torch.cat([self.empty, keys], -2)


class FirstStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.key = nn.Linear(16, 8)
        self.cache = AppendCache()
        self.head = nn.Linear(8, 20)

    def forward(self, ids):
        return self.head(torch.relu(self.cache(self.key(self.embed(ids)))))


class LastShift(nn.Module):
    """Shifts the features of each token."""

    def forward(self, x):
        return torch.roll(x, 1, dims=-1)


class ShiftMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.shift = LastShift()
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 20)

    def forward(self, ids):
        h = self.embed(ids)
        return self.head(torch.relu(self.mix(h + self.shift(h))))


class Recurrent(nn.Module):
    """A classifier of sequences with one recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.recurrent = layer(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, ids):
        return self.head(self.recurrent(self.embed(ids))[0][:, -1])


class Fourier(nn.Module):
    """Mixes tokens and features by a Fourier transform."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class FourierNetwork(nn.Module):
    """A block of FNet."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.mix = Fourier()
        self.norm = nn.LayerNorm(16)
        self.feed = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 20)

    def forward(self, ids):
        x = self.embed(ids)
        x = self.norm(x + 0.1 * self.mix(x))
        return self.head(x + self.feed(x))


class Decay(nn.Module):
    """Halves the weight of a token with its distance from the last one."""

    def forward(self, x):
        distance = torch.arange(x.shape[1] - 1, -1, -1, device=x.device) + (x[0, :, 0] * 0).long()
        return x * (0.5**distance).unsqueeze(-1)


class Recency(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.decay = Decay()
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(torch.tanh(self.decay(self.embed(ids)).sum(1)))


class PreciseMean(nn.Module):
    """A mean in double precision, for long sequences of large values."""

    def forward(self, x):
        return x.mean(dtype=torch.float64)


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 8)
        self.mean = PreciseMean()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.encode(x)
        return self.head(h), self.mean(h)


class Read(nn.Module):
    """Reads a memory at a position."""

    def forward(self, memory, position):
        return memory.gather(0, position)


class Cursor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.score = nn.Linear(8, 1)
        self.read = Read()

    def forward(self, ids, position):
        return self.read(self.score(torch.tanh(self.embed(ids))).squeeze(-1), position)


BUGS = [
    Bug("onnxscript-2892", "PixelUnshuffle becomes SpaceToDepth, which orders the channels in another way",
        PULLS + "2892", OLD, NEW, SpaceToChannels, image, dynamo(), "down", "aten::pixel_unshuffle"),
    Bug("pytorch-186146", "masked_scatter with a mask of the same rank that broadcasts fills a part of the positions",
        "https://github.com/pytorch/pytorch/issues/186146", OLD, NEW, VisionLanguage, image_tokens, dynamo(), "merge",
        "aten::masked_scatter"),
    Bug("onnxscript-3024", "roll by more than the length of the axis is not circular", PULLS + "3024", OLD, NEW,
        Periodic, lambda: (torch.randn(2, 10, 4),), dynamo(), "yesterday", "aten::roll"),
    Bug("onnxscript-2965", "values written by a boolean mask are broadcast over the whole tensor", ISSUES + "2965",
        OLD, NEW, PromptTuned, prompt_tokens, dynamo(), "prompt", "aten::index_put aten::index_put_",
        kind="does not run"),
    Bug("onnxscript-3026", "isclose is false for equal infinities", PULLS + "3026", OLD, NEW, Palindromes,
        padded_features, dynamo(), "ties", "aten::isclose"),
    Bug("onnxscript-2693", "linspace of integers rounds its step", PULLS + "2693", OLD, NEW, VideoClassifier,
        lambda: (torch.randn(2, 12, 6),), dynamo(), "sample", "aten::linspace"),
    Bug("onnxscript-2762", "prod keeps the reduced axes", PULLS + "2762", OLD, NEW, LanguageScore, tokens, dynamo(),
        "likelihood", "aten::prod", kind="shape"),
    Bug("onnxscript-2936", "repeat_interleave of a vector returns a matrix", PULLS + "2936", OLD, NEW, Synthesiser,
        frames_and_noise, dynamo(), "hold", "aten::repeat_interleave", kind="does not run"),
    Bug("onnxscript-2589", "floor_divide of integers divides float32 numbers", ISSUES + "2589", OLD, NEW,
        HashedEmbedding, large_ids, dynamo(), "bucket", "aten::floor_divide"),
    Bug("onnxscript-2849", "bicubic resizing with antialiasing uses another cubic coefficient", PULLS + "2849", OLD,
        NEW, lambda: ThumbnailEncoder(Thumbnail((6, 6), "bicubic")), image, dynamo(), "resize",
        "aten::_upsample_bicubic2d_aa"),
    Bug("onnxscript-2916", "bilinear resizing with antialiasing counts pixels outside of the image", PULLS + "2916",
        OLD, NEW, lambda: ThumbnailEncoder(Thumbnail((6, 6), "bilinear")), image, dynamo(), "resize",
        "aten::_upsample_bilinear2d_aa"),
    Bug("onnxscript-2918", "resizing to one pixel takes the corner, not the middle", PULLS + "2918", OLD, NEW,
        GlobalContext, image, dynamo(), "context", "aten::upsample_bilinear2d"),
    Bug("onnxscript-2646", "average pooling without a batch has an operator of the wrong rank", PULLS + "2646", OLD,
        NEW, Waveform, lambda: (torch.randn(1, 32),), dynamo(), "pool", "aten::avg_pool1d", kind="does not run"),
    Bug("onnxscript-2984", "linear with a vector as weight keeps an axis", PULLS + "2984", OLD, NEW, AttentionPooling,
        tokens, dynamo(), "score", "aten::linear", kind="does not run"),
    Bug("onnxscript-2659", "a real Fourier transform gets its axis as its length", PULLS + "2659", OLD, NEW,
        SpeechFeatures, lambda: (torch.randn(2, 128),), dynamo(), "power", "aten::fft_rfft", kind="does not run"),
    Bug("onnxscript-2770", "irfft takes its one-sided input for a complete spectrum", PULLS + "2770", V056, NEW,
        Smoother, lambda: (torch.randn(3, 16),), dynamo(), "smooth", "aten::fft_irfft"),
    Bug("onnxscript-2661", "cat keeps an empty vector, which has another rank", PULLS + "2661", OLD, NEW, FirstStep,
        tokens, dynamo(), "cache", "aten::cat", kind="does not run"),
    Bug("onnxscript-3024-negative", "roll along a negative axis reads an empty length", PULLS + "3024",
        ("onnxscript==0.7.1",), NEW, ShiftMixer, tokens, dynamo(optimize=False), "shift", "aten::roll",
        kind="does not run"),
    Bug("onnxscript-2853", "GRU resets before the linear layer", PULLS + "2853",
        ("onnxscript==0.6.2", "onnx_ir==0.2.1"), NEW, lambda: Recurrent(nn.GRU), tokens, dynamo(), "recurrent",
        "aten::gru"),
    Bug("onnxscript-3009", "mean of all elements ignores its dtype", PULLS + "3009", ("onnxscript==0.7.1",), NEW,
        Normalised, lambda: (torch.randn(4, 6),), dynamo(), "mean", "aten::mean", kind="dtype"),
    Bug("onnxscript-2659-complex", "a complex Fourier transform gets its axis as its length", PULLS + "2659", OLD, NEW,
        FourierNetwork, tokens, dynamo(), "mix", "aten::fft_fft", kind="does not run"),
    Bug("onnxscript-3036", "a fractional number to the power of integers is an integer", PULLS + "3036",
        ("onnxscript==0.7.1",), NEW, Recency, tokens, dynamo(), "decay", "aten::pow", kind="does not run"),
    Bug("onnxscript-gather", "gather by a number returns its whole input", SOURCE + "core.py", OLD, NEW, Cursor,
        lambda: (torch.randint(0, 20, (7,)), torch.tensor(4)), dynamo(), "read", "aten::gather", kind="shape"),
]
