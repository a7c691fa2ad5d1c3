"""Random numbers. Only dtypes and shapes equal PyTorch's; ranges are checked by comparisons that are true for every
draw. In evaluation, dropout is the identity."""

import torch
import torch.nn.functional as F
from torch import nn

from ops.case import between, boolean, case, f16, f32, i64

PROBABILITIES = torch.tensor([0.0, 1.0, 1.0, 0.0])
WEIGHTS = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
aten = torch.ops.aten


def unchecked(key, function, *inputs, **options):
    """Creates a case that compares only dtype and shape."""
    return case(key, function, *inputs, tolerance=None, **options)


def within(low, high, numbers):
    return ((numbers >= low) & (numbers < high)).all()


CASES = [
    unchecked("aten::rand", lambda x: x + torch.rand(2, 3), f32(2, 3)),
    unchecked("aten::rand", lambda x: x + torch.rand(x.shape[0], 3), f32(2, 3), dynamic="x:0=n"),
    case("aten::rand", lambda x: within(0, 1, torch.rand(20)) & x, boolean(3)),
    unchecked("aten::randn", lambda x: x + torch.randn(2, 3, dtype=torch.float64), f32(2, 3)),
    unchecked("aten::randn", lambda x: x + torch.randn(x.shape), f32(2, 3), dynamic="x:0=n"),
    case("aten::randn", lambda x: within(-9, 9, torch.randn(20)) & x, boolean(3)),
    case("aten::rand_like", lambda x: within(0, 1, torch.rand_like(x)), f32(5), dynamic="x:0=n"),
    unchecked("aten::rand_like", lambda x: torch.rand_like(x, dtype=torch.float32), i64(0, 9, 5)),
    case("aten::randn_like", lambda x: within(-9, 9, torch.randn_like(x)), f32(5)),
    case("aten::uniform", lambda x: within(3, 5, aten.uniform(x, 3, 5)), f32(20)),
    case("aten::normal_functional", lambda x: within(40, 60, aten.normal_functional(x, 50, 0.5)), f32(20)),
    case("aten::randint", lambda x: within(0, 7, torch.randint(7, (20,))) & x, boolean(3)),
    unchecked("aten::randint", lambda x: torch.randint(7, (x.shape[0],)), f32(3), dynamic="x:0=n"),
    case("aten::randint.low", lambda x: within(5, 7, torch.randint(5, 7, (20,))) & x, boolean(3)),
    case("aten::randint_like", lambda x: within(0, 7, torch.randint_like(x, 7)), f32(20)),
    case("aten::randint_like.low_dtype", lambda x: within(-2, 2, torch.randint_like(x, -2, 2)), i64(0, 9, 20)),
    case("aten::randperm", lambda x: torch.randperm(9).sort()[0] + x, i64(0, 9, 9)),
    unchecked("aten::randperm", lambda x: torch.randperm(x.shape[0]), f32(5), dynamic="x:0=n"),
    case("aten::normal.Tensor_Tensor", lambda m, s: within(0, 10, torch.normal(m, s)), between(4, 5, 2, 3),
         between(0.1, 0.2, 3)),
    case("aten::normal.Tensor_float", lambda m: within(0, 10, torch.normal(m, 0.1)), between(4, 5, 2, 3)),
    case("aten::normal.float_Tensor", lambda s: within(0, 10, torch.normal(5.0, s)), between(0.1, 0.2, 3)),
    case("aten::normal.float_float", lambda x: within(0, 10, torch.normal(5.0, 0.1, (2, 3))) & x, boolean(3)),
    case("aten::bernoulli", lambda p: torch.bernoulli(p), PROBABILITIES, opsets=(13, 20)),
    case("aten::bernoulli.p", lambda x: torch.bernoulli(x, 1.0), f32(2, 3)),
    case("aten::bernoulli.Tensor", lambda x, p: aten.bernoulli.Tensor(x, p), f32(4), PROBABILITIES),
    case("aten::bernoulli.p", lambda x: (x + 0).bernoulli_(1.0), f32(2, 3), recorded_as="aten::bernoulli_.float"),
    case("aten::bernoulli.p", lambda x: within(0, 1, (x * 0).bernoulli_().mean()), f32(200),
         recorded_as="aten::bernoulli_.float"),
    case("aten::exponential", lambda x: within(0.5, 2, aten.exponential(x, 0.1).mean() / 10), f32(2000)),
    case("aten::exponential", lambda x: (x + 0).exponential_(1e9), f16(2, 3), recorded_as="aten::exponential_"),
    case("aten::geometric", lambda x: within(1.8, 2.2, aten.geometric(x, 0.5).mean()), f32(2000)),
    case("aten::geometric", lambda x: (x + 0).geometric_(0.9999999), i64(0, 9, 2, 3), recorded_as="aten::geometric_"),
    case("aten::cauchy", lambda x: within(4, 6, aten.cauchy(x, 5, 2).median()), f32(2001)),
    case("aten::log_normal", lambda x: within(2.5, 3, aten.log_normal(x, 1, 0.1).median()), f32(2001)),
    case("aten::random", lambda x: within(2**22, 2**24, aten.random(x).median()), f32(2001)),
    case("aten::random", lambda x: within(30, 90, aten.random(x).median()), i64(0, 9, 2001).tensor().to(torch.int8)),
    case("aten::random", lambda x: aten.random(x).max() > 2**61, i64(0, 9, 50)),
    case("aten::random.to", lambda x: aten.random.to(x, 7).unique(), i64(0, 9, 200)),
    case("aten::random.from", lambda x: getattr(aten.random, "from")(x, 3, 6).unique(), f32(200),
         not_in_archives="torch.export cannot save an argument named from"),
    case("aten::multinomial", lambda w: torch.multinomial(w, 4, True), WEIGHTS),
    case("aten::multinomial", lambda w: torch.multinomial(w, 1), WEIGHTS[0]),
    case("aten::multinomial", lambda w: torch.multinomial(w, 4).sort()[0], between(0.5, 1, 2, 4)),
    case("aten::dropout", nn.Dropout(0.5), f32(2, 3)),
    unchecked("aten::dropout", lambda x: F.dropout(x, 0.5, True), f32(2, 3), dynamic="x:0=n"),
    case("aten::dropout", lambda x: F.dropout(x, 0.0, True) + 1, f32(2, 3)),
    case("aten::dropout", lambda x: F.dropout(x, 1.0, True), f32(2, 3)),
    case("aten::dropout", lambda x: F.dropout(x + 0, 1.0, True, inplace=True), f32(2, 3), recorded_as="aten::dropout_"),
    case("aten::native_dropout", lambda x: torch.native_dropout(x, 1.0, True), f32(2, 3), dynamic="x:0=n",
         not_at={"n=0": "PyTorch's mask of an empty tensor has the dtype of the input"}),
    case("aten::native_dropout", lambda x: torch.native_dropout(x, 0.5, False)[0] + 1, f32(2, 3)),
    unchecked("aten::native_dropout", lambda x: torch.native_dropout(x, 0.5, True), f32(2, 3)),
    case("aten::alpha_dropout", lambda x: F.alpha_dropout(x, 0.5) + 1, f32(2, 3)),
    case("aten::alpha_dropout", lambda x: within(0.9, 1.1, F.alpha_dropout(x, 0.3, True).std()), f32(5000)),
    case("aten::feature_dropout", lambda x: F.dropout2d(x, 0.5, True)[0, :, 0, 0].unique(), torch.ones(1, 200, 2, 2)),
    case("aten::feature_dropout", lambda x: F.dropout2d(x, 0.5, False) + 1, f32(2, 3, 4, 4)),
    case("aten::feature_alpha_dropout", lambda x: F.feature_alpha_dropout(x, 0.5) + 1, f32(2, 3, 4)),
]
