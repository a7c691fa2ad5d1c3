"""Bugs of PyTorch's exporters in the newest versions, by the exporter that has them: the right file is from another one."""

import torch
from torch import nn
from torch.nn import functional as F

from bug import Bug
from roads import dynamo, native, torchscript

NEW = ("torch==2.13.0",)
ISSUES = "https://github.com/pytorch/pytorch/issues/"
SYMBOLIC = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/torchscript_exporter/"
OPERATORS = "https://github.com/microsoft/onnxscript/blob/v0.7.2/onnxscript/function_libs/torch_lib/ops/"


def image():
    return (torch.randn(2, 3, 16, 16),)


def tokens():
    return (torch.randint(0, 20, (2, 7)),)


class BorderPool(nn.Module):
    """Average pooling that divides by a fixed number, so that windows at the border weigh less."""

    def __init__(self, divisor):
        super().__init__()
        self.divisor = divisor

    def forward(self, x):
        return F.avg_pool2d(x, 3, 2, padding=1, divisor_override=self.divisor)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


class PooledClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.down = BorderPool(5)
        self.block = Residual(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.block(self.down(torch.relu(self.stem(x)))).mean((2, 3)))


class Variance(nn.Module):
    """A regression with uncertainty: the scale is positive by a steep softplus."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.mean = nn.Linear(16, 2)
        self.scale = nn.Linear(16, 2)
        self.positive = nn.Softplus(beta=4, threshold=2)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), self.positive(self.scale(h))


class Distances(nn.Module):
    """Distances of features to learnt prototypes."""

    def __init__(self, p):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(5, 8))
        self.p = p

    def forward(self, x):
        return torch.cdist(x, self.prototypes, p=self.p)


class Prototypes(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
        self.distances = Distances(p)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(-self.distances(self.encode(x)))


class Pairs(nn.Module):
    """A siamese network: two towers with one set of weights, and a measure of how near they are."""

    def __init__(self, near):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
        self.near = near
        self.head = nn.Linear(1, 1)

    def forward(self, a, b):
        return self.head(self.near(self.tower(a), self.tower(b)).unsqueeze(-1))


def pairs():
    a = torch.randn(4, 6)
    return a, a + 0.01 * torch.randn(4, 6)


def small_pairs():
    return 0.1 * torch.randn(4, 6), 0.1 * torch.randn(4, 6)


class Bucket(nn.Module):
    """Makes small bucket numbers of large identifiers."""

    def forward(self, ids):
        return torch.div(ids, 1009, rounding_mode="floor") % 16


class HashedEmbedding(nn.Module):
    def __init__(self, bucket):
        super().__init__()
        self.bucket = bucket
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(torch.relu(self.embed(self.bucket(ids)).mean(1)))


class FloorBucket(nn.Module):
    """The same by the floor division of Python."""

    def forward(self, ids):
        return (ids // 1009) % 16


class ShiftBucket(nn.Module):
    """Makes bucket numbers of the high bits of signed hashes."""

    def forward(self, ids):
        return (ids >> 27) + 16


class SignedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.bucket = ShiftBucket()
        self.embed = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(torch.relu(self.embed(self.bucket(ids)).mean(1)))


class Corners(nn.Module):
    """Takes the two last positions at chosen channels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor([-1, -2]))
        self.register_buffer("columns", torch.tensor([-3, 1]))

    def forward(self, x):
        return x[:, self.rows, self.columns]


class CornerReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.mix = nn.Linear(8, 8)
        self.corners = Corners()
        self.head = nn.Linear(2, 3)

    def forward(self, ids):
        return self.head(self.corners(torch.tanh(self.mix(self.embed(ids)))))


class Angle(nn.Module):
    """The direction of each edge of a polygon."""

    def forward(self, edges):
        return torch.atan2(edges[..., 1], edges[..., 0])


class Polygons(nn.Module):
    """Features of polygons with axis-parallel edges, such as those of floor plans."""

    def __init__(self):
        super().__init__()
        self.angle = Angle()
        self.embed = nn.Linear(1, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, points):
        edges = points.roll(-1, 1) - points
        return self.head(torch.relu(self.embed(self.angle(edges).unsqueeze(-1))).mean(1))


def squares():
    square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    return (torch.stack([square, square * torch.tensor([3.0, 2.0])]),)


class SoftMaximum(nn.Module):
    """Adds two scores given as logarithms."""

    def forward(self, a, b):
        return torch.logaddexp(a, b)


class TwoPaths(nn.Module):
    """Scores of two alignments, as in a decoder of speech."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.second = nn.Linear(6, 4)
        self.combine = SoftMaximum()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.combine(60 * self.first(x), 60 * self.second(x)) / 60)


class MeanByNode(nn.Module):
    """The mean of the messages of each node's edges, and of the node itself."""

    def forward(self, nodes, messages, targets):
        return nodes.scatter_reduce(0, targets.unsqueeze(-1).expand_as(messages), messages, "mean", include_self=True)


class GraphLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(6, 6)
        self.gather = MeanByNode()
        self.update = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, nodes, sources, targets):
        messages = torch.tanh(self.message(nodes[sources]))
        return self.head(torch.relu(self.update(self.gather(nodes, messages, targets))))


def graph():
    return torch.randn(5, 6), torch.tensor([0, 1, 2, 3, 4, 0, 2]), torch.tensor([1, 2, 2, 1, 2, 4, 1])


class SmoothedLoss(nn.Module):
    """A loss per token, zero where there is no label."""

    def forward(self, logits, labels):
        return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100, label_smoothing=0.1)


class Trained(nn.Module):
    """A language model that returns its loss, as exported for training on a device."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.head = nn.Linear(16, 20)
        self.loss = SmoothedLoss()

    def forward(self, ids, labels):
        logits = self.head(torch.tanh(self.embed(ids)))
        return self.loss(logits, labels), logits


def labelled_tokens():
    labels = torch.randint(0, 20, (2, 7))
    labels[:, :3] = -100
    return torch.randint(0, 20, (2, 7)), labels


class ProjectedRecurrence(nn.Module):
    """A speech encoder with projected states."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(6, 8)
        self.recurrent = nn.LSTM(8, 10, proj_size=4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.recurrent(self.input(x))[0])


class Position(nn.Module):
    """Numbers the tokens that are not padding."""

    def forward(self, ids):
        return torch.cumsum((ids != 0).int(), 1) * (ids != 0)


class PaddedPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.position = Position()
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        position = self.position(ids)
        return self.head(self.embed(ids)), position


class FirstHit(nn.Module):
    """Where a score is above zero, for one score."""

    def forward(self, score):
        return torch.nonzero(score > 0)


class Trigger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 8)
        self.score = nn.Linear(8, 1)
        self.hit = FirstHit()

    def forward(self, x):
        score = self.score(torch.tanh(self.encode(x))).abs().sum()
        return score, self.hit(score)


class Scaled(nn.Module):
    """The scaled complementary error function."""

    def forward(self, x):
        return torch.special.erfcx(x)


class Plume(nn.Module):
    """A surrogate of a physical model with an analytic last step."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.depth = nn.Linear(8, 2)
        self.decay = Scaled()

    def forward(self, x):
        return self.decay(12 + self.depth(self.body(x)))


class Probit(nn.Module):
    """The logarithm of a normal probability."""

    def forward(self, x):
        return torch.special.log_ndtr(x)


class Ordinal(nn.Module):
    """Log-probabilities of ordered grades."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.score = nn.Linear(8, 1)
        self.probit = Probit()
        self.register_buffer("grades", torch.tensor([-2.0, 0.0, 2.0]))

    def forward(self, x):
        return self.probit(10 * (self.grades - self.score(self.body(x))))


class SignFeature(nn.Module):
    """One of three signs; the sign of a missing value is missing."""

    def forward(self, x):
        return torch.sign(x)


class Best(nn.Module):
    """The best score of each row; the best of a row with a missing score is missing."""

    def forward(self, x):
        return x.amax(-1)


class Sensors(nn.Module):
    """Sensor fusion where a sensor that failed reads NaN."""

    def __init__(self, read):
        super().__init__()
        self.calibrate = nn.Parameter(torch.rand(6))
        self.read = read
        self.missing = nn.Parameter(torch.tensor(0.7))
        self.head = nn.LazyLinear(2)
        self.forward(torch.zeros(1, 4, 6))

    def forward(self, x):
        read = self.read(x * self.calibrate)
        return self.head(torch.where(read.isnan(), self.missing, read))


def failed_sensors():
    x = torch.randn(3, 4, 6)
    x[0, 1, 0] = x[2, 2, 5] = float("nan")
    return (x,)


class SumByNode(nn.Module):
    """The sum of the messages of each node's edges."""

    def forward(self, nodes, messages, targets):
        return torch.zeros_like(nodes).index_put((targets,), messages, accumulate=True)


class SumLayer(GraphLayer):
    def __init__(self):
        super().__init__()
        self.gather = SumByNode()


class DilatedContext(nn.Module):
    """Segmentation with a dilated convolution that keeps the size."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.context = nn.Conv2d(6, 6, 3, padding="same", dilation=2)
        self.head = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        return self.head(torch.relu(self.context(torch.relu(self.stem(x)))))


class Speech(nn.Module):
    """Whether a frame holds any energy."""

    def forward(self, energy):
        return energy.any()


class Detected(nn.Module):
    """A detector of speech that is silent if no frame has energy above its threshold."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Linear(6, 1)
        self.speech = Speech()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x) * self.speech(torch.relu(self.energy(x) - 0.05))


class RelativePosition(nn.Module):
    """Distances of positions, limited to two and a half."""

    def forward(self, positions):
        return (positions.unsqueeze(-1) - positions.unsqueeze(-2)).clamp(-2.5, 2.5)


class RelativeScores(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.relative = RelativePosition()
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        positions = torch.cumsum(torch.ones_like(ids), 1)
        return self.head(self.embed(ids)), self.relative(positions)


class Either(nn.Module):
    """A mask of the tokens that one of two rules selects."""

    def forward(self, ids):
        return (ids == 0) + (ids > 15)


class Special(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.special = Either()
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.embed(ids).masked_fill(self.special(ids).unsqueeze(-1), 0).mean(1))


class NoPadding(nn.Module):
    """Whether all positions of a sequence hold a token; padding is zero."""

    def forward(self, ids):
        return ids.all(1, keepdim=True)


class CompleteOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.complete = NoPadding()
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1)) * self.complete(ids)


class Waveform(nn.Module):
    """A network on one waveform, without a batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.pool = nn.MaxPool1d(4)
        self.head = nn.Conv1d(8, 2, 1)

    def forward(self, x):
        return self.head(self.pool(torch.relu(self.conv(x))))


class LeastByNode(nn.Module):
    """The least message of each node's edges, and of the node itself."""

    def forward(self, nodes, messages, targets):
        return nodes.scatter_reduce(0, targets.unsqueeze(-1).expand_as(messages), messages, "amin")


class LeastLayer(GraphLayer):
    def __init__(self):
        super().__init__()
        self.gather = LeastByNode()


class Votes(nn.Module):
    """Adds the votes of the first three members only."""

    def forward(self, scores, candidates):
        return torch.zeros_like(scores).scatter_add(1, candidates, scores)


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(6, 5)
        self.votes = Votes()
        self.head = nn.Linear(5, 3)

    def forward(self, x, candidates):
        return self.head(self.votes(self.score(x).sigmoid(), candidates))


class Preference(nn.Module):
    """The loss of direct preference optimisation, per pair."""

    def forward(self, chosen, rejected):
        return -F.logsigmoid(chosen - rejected)


class Preferences(nn.Module):
    """Scores two answers and returns their loss, as exported for training on a device."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
        self.score = nn.Linear(12, 1)
        self.loss = Preference()

    def forward(self, chosen, rejected):
        scores = [300 * self.score(self.encode(each)) for each in (chosen, rejected)]
        return self.loss(*scores)


class Weighted(nn.Module):
    """A loss that weighs the rare class."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor(4.0))

    def forward(self, logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=self.weight, reduction="none")


class RareEvents(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
        self.score = nn.Linear(12, 2)
        self.loss = Weighted()

    def forward(self, x, labels):
        return self.loss(400 * self.score(self.encode(x)), labels).mean(1)


BUGS = [
    Bug("pytorch-divisor-torchscript", "avg_pool2d ignores divisor_override", ISSUES + "105349", NEW, NEW,
        PooledClassifier, image, torchscript(), "down", "aten::avg_pool2d", write_right=native()),
    Bug("pytorch-divisor-dynamo", "avg_pool2d ignores divisor_override", ISSUES + "105349", NEW, NEW, PooledClassifier,
        image, dynamo(), "down", "aten::avg_pool2d", write_right=native()),
    Bug("pytorch-softplus", "softplus ignores its threshold", SYMBOLIC + "symbolic_opset9.py", NEW, NEW, Variance,
        lambda: (3 * torch.randn(5, 6),), torchscript(), "positive", "aten::softplus", write_right=dynamo()),
    Bug("pytorch-cdist", "cdist with p=1 is a power of negative numbers", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        lambda: Prototypes(1.0), lambda: (torch.randn(4, 6),), torchscript(), "distances", "aten::cdist",
        write_right=native(), kind="nan"),
    Bug("pytorch-cdist-infinity", "cdist with p=inf is a sum of powers", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        lambda: Prototypes(float("inf")), lambda: (torch.randn(4, 6),), torchscript(), "distances", "aten::cdist",
        write_right=native()),
    Bug("pytorch-cosine", "cosine_similarity compares the product of the norms with eps",
        SYMBOLIC + "symbolic_opset9.py", NEW, NEW, lambda: Pairs(nn.CosineSimilarity(dim=-1, eps=0.5)), small_pairs,
        torchscript(), "near", "aten::cosine_similarity", write_right=dynamo()),
    Bug("pytorch-pairwise", "pairwise_distance adds eps in another place", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        lambda: Pairs(nn.PairwiseDistance(eps=0.01)), pairs, torchscript(), "near", "aten::pairwise_distance",
        write_right=dynamo()),
    Bug("pytorch-div-floor", "a division of integers that rounds down divides float32 numbers", OPERATORS + "core.py",
        NEW, NEW, lambda: HashedEmbedding(Bucket()), lambda: (torch.randint(2**40, 2**42, (2, 6)),), dynamo(),
        "bucket", "aten::div", write_right=torchscript()),
    Bug("pytorch-floor-divide", "floor_divide of negative integers", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        lambda: HashedEmbedding(FloorBucket()), lambda: (torch.randint(-(2**42), 2**42, (2, 6)),), torchscript(),
        "bucket", "aten::floor_divide", write_right=dynamo()),
    Bug("pytorch-shift", "a shift of negative integers to the right is not arithmetic",
        SYMBOLIC + "symbolic_opset9.py", NEW, NEW, SignedEmbedding, lambda: (torch.randint(-(2**31), 2**31, (2, 6)),),
        torchscript(), "bucket", "aten::__rshift__", write_right=dynamo()),
    Bug("pytorch-negative-index", "negative numbers in several index tensors index another element",
        SYMBOLIC + "symbolic_opset9.py", NEW, NEW, CornerReader, tokens, torchscript(), "corners", "aten::index",
        write_right=dynamo()),
    Bug("pytorch-atan2-dynamo", "atan2 of zero and a negative number is -pi", OPERATORS + "core.py", NEW, NEW,
        Polygons, squares, dynamo(), "angle", "aten::atan2", write_right=native()),
    Bug("pytorch-atan2-torchscript", "atan2 of zero and a negative number is -pi", SYMBOLIC + "symbolic_opset9.py",
        NEW, NEW, Polygons, squares, torchscript(), "angle", "aten::atan2", write_right=native()),
    Bug("pytorch-logaddexp", "logaddexp overflows", OPERATORS + "core.py", NEW, NEW, TwoPaths,
        lambda: (3 * torch.randn(5, 6),), dynamo(), "combine", "aten::logaddexp", write_right=native(), kind="nan"),
    Bug("pytorch-scatter-mean", "scatter_reduce computes a sum for a mean", OPERATORS + "core.py", NEW, NEW,
        GraphLayer, graph, dynamo(), "gather", "aten::scatter_reduce", write_right=native()),
    Bug("pytorch-cross-entropy", "cross_entropy ignores its label smoothing", OPERATORS + "nn.py", NEW, NEW, Trained,
        labelled_tokens, dynamo(), "loss", "aten::cross_entropy_loss", write_right=native()),
    Bug("pytorch-lstm-projection", "an LSTM with a projection has an operator that knows none", OPERATORS + "core.py",
        NEW, NEW, ProjectedRecurrence, lambda: (torch.randn(2, 5, 6),), dynamo(), "recurrent", "aten::lstm",
        write_right=native(), kind="does not run"),
    Bug("pytorch-cumsum", "cumsum of 32-bit integers stays 32-bit", SYMBOLIC + "symbolic_opset11.py", NEW, NEW,
        PaddedPositions, lambda: (torch.tensor([[4, 9, 1, 0, 0], [7, 3, 8, 2, 0]]),), torchscript(), "position",
        "aten::cumsum", write_right=dynamo(), kind="dtype"),
    Bug("pytorch-nonzero-dynamo", "nonzero of a number has a column", OPERATORS + "core.py", NEW, NEW, Trigger,
        lambda: (torch.randn(6),), dynamo(), "hit", "aten::nonzero", write_right=native(), kind="shape"),
    Bug("pytorch-nonzero-torchscript", "nonzero of a number has a column", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        Trigger, lambda: (torch.randn(6),), torchscript(), "hit", "aten::nonzero", write_right=native(), kind="shape"),
    Bug("pytorch-erfcx", "erfcx of large numbers is a product of zero and infinity", OPERATORS + "special.py", NEW,
        NEW, Plume, lambda: (torch.randn(3, 4),), dynamo(), "decay", "aten::special_erfcx", write_right=native(),
        kind="nan"),
    Bug("pytorch-log_ndtr", "log_ndtr of small numbers is the logarithm of zero", OPERATORS + "special.py", NEW, NEW,
        Ordinal, lambda: (torch.randn(3, 4),), dynamo(), "probit", "aten::special_log_ndtr", write_right=native(),
        kind="nan"),
    Bug("pytorch-sign-nan", "sign of NaN is zero", OPERATORS + "core.py", NEW, NEW, lambda: Sensors(SignFeature()),
        failed_sensors, dynamo(), "read", "aten::sign", write_right=native()),
    Bug("pytorch-amax-nan", "amax leaves out NaN", OPERATORS + "core.py", NEW, NEW, lambda: Sensors(Best()),
        failed_sensors, torchscript(), "read", "aten::amax", write_right=native()),
    Bug("pytorch-accumulate", "index_put that accumulates keeps one of several values at one place",
        SYMBOLIC + "symbolic_opset11.py", NEW, NEW, SumLayer, graph, torchscript(), "gather", "aten::index_put",
        write_right=dynamo()),
    Bug("pytorch-same-dilated", "a dilated convolution with padding 'same' is padded as if it had no dilation",
        SYMBOLIC + "symbolic_opset9.py", NEW, NEW, DilatedContext, image, torchscript(), "context",
        "aten::conv2d aten::_convolution_mode", write_right=dynamo(), kind="does not run"),
    Bug("pytorch-any", "any of floating-point numbers rounds them to integers", SYMBOLIC + "symbolic_opset9.py", NEW,
        NEW, Detected, lambda: (0.4 * torch.randn(4, 6),), torchscript(), "speech", "aten::any", write_right=dynamo()),
    Bug("pytorch-clamp", "clamp of integers with fractional limits stays integer", SYMBOLIC + "symbolic_opset11.py",
        NEW, NEW, RelativeScores, tokens, torchscript(), "relative", "aten::clamp", write_right=dynamo(),
        kind="dtype"),
    Bug("pytorch-add-bool", "the sum of two masks is an Add of booleans", SYMBOLIC + "symbolic_opset9.py", NEW, NEW,
        Special, tokens, torchscript(), "special", "aten::add", write_right=native(), kind="does not run"),
    Bug("pytorch-all-integers", "all of integers has no operator for its type", SYMBOLIC + "symbolic_opset9.py", NEW,
        NEW, CompleteOnly, tokens, torchscript(), "complete", "aten::all", write_right=dynamo(), kind="does not run"),
    Bug("pytorch-max_pool", "max pooling without a batch has an operator of the wrong rank",
        SYMBOLIC + "symbolic_opset10.py", NEW, NEW, Waveform, lambda: (torch.randn(1, 32),), torchscript(), "pool",
        "aten::max_pool1d", write_right=dynamo(), kind="does not run"),
    Bug("pytorch-scatter-least", "scatter_reduce scatters one element", SYMBOLIC + "symbolic_opset16.py", NEW, NEW,
        LeastLayer, graph, torchscript(), "gather", "aten::scatter_reduce", write_right=dynamo(), kind="does not run"),
    Bug("pytorch-scatter-fewer", "scatter_add with fewer indices than values is refused by the runtime",
        OPERATORS + "core.py", NEW, NEW, Ensemble, lambda: (torch.randn(4, 6), torch.randint(0, 5, (4, 3))), dynamo(),
        "votes", "aten::scatter_add", write_right=native(), kind="does not run"),
    Bug("pytorch-logsigmoid-dynamo", "logsigmoid of negative numbers is the logarithm of zero", OPERATORS + "nn.py",
        NEW, NEW, Preferences, lambda: (torch.randn(5, 6), torch.randn(5, 6)), dynamo(), "loss",
        "aten::log_sigmoid aten::log_sigmoid_forward", write_right=native(), kind="nan"),
    Bug("pytorch-logsigmoid-torchscript", "logsigmoid of negative numbers is the logarithm of zero",
        SYMBOLIC + "symbolic_opset9.py", NEW, NEW, Preferences, lambda: (torch.randn(5, 6), torch.randn(5, 6)),
        torchscript(), "loss", "aten::log_sigmoid aten::log_sigmoid_forward", write_right=native(), kind="nan"),
    Bug("pytorch-bce-weighted", "binary_cross_entropy_with_logits is the logarithm of zero for large logits",
        OPERATORS + "nn.py", NEW, NEW, RareEvents, lambda: (torch.randn(5, 6), torch.randint(0, 2, (5, 2)).float()),
        dynamo(), "loss", "aten::binary_cross_entropy_with_logits", write_right=native(), kind="nan"),
]
