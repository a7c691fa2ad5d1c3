"""Loss functions with each reduction, weights and ignored targets."""

import torch
import torch.nn.functional as F

from ops.case import between, case, f32, i64

SCORES, TARGETS = f32(4, 5), i64(0, 5, 4)
PLANES, PLANE_TARGETS = f32(2, 5, 3, 2), i64(0, 5, 2, 3, 2)
LABELS = torch.tensor([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [2, -1, -1, -1, -1]])
IGNORED_TARGETS = torch.tensor([0, -100, 4, 1])
OTHER = f32(4, 5, seed=1)
PROBABILITY = between(0.01, 0.99, 4, 5)
EMPTY_MEAN = "PyTorch's mean of an empty tensor is uninitialised memory"
SPECIAL = torch.tensor([float("inf"), 1.0, -float("inf"), -2.0])

CASES = [
    *(case("aten::multilabel_margin_loss", lambda x, y, how=how: F.multilabel_margin_loss(
        x, torch.where(y > 2, y - 4, y), reduction=how), SCORES, i64(0, 5, 4, 5), dynamic="x:0=n y:0=n",
        not_at={"n=0": EMPTY_MEAN})
      for how in ("none", "mean", "sum")),
    case("aten::multilabel_margin_loss", lambda x, y: F.multilabel_margin_loss(x, y), SCORES, LABELS),
    case("aten::multilabel_margin_loss", lambda x, y: F.multilabel_margin_loss(x, y), f32(5), LABELS[0]),
    case("aten::multilabel_margin_loss", lambda x, y: F.multilabel_margin_loss(x, y, reduction="none"), f32(5),
         LABELS[3], not_in_archives="torch.export records another shape"),
    case("aten::multi_margin_loss", lambda x, y: F.multi_margin_loss(x, y), SCORES, TARGETS, dynamic="x:0=n y:0=n",
         not_at={"n=0": EMPTY_MEAN}),
    *(case("aten::multi_margin_loss", lambda x, y, w, how=how: F.multi_margin_loss(x, y, 2, 0.5, w, reduction=how),
           SCORES, TARGETS, between(0, 2, 5), opsets=(13, 20)) for how in ("none", "sum")),
    case("aten::multi_margin_loss", lambda x, y: F.multi_margin_loss(x, y, reduction="none"), f32(5), torch.tensor(3),
         not_in_archives="torch.export records the shape [1] instead of []"),
    case("aten::multi_margin_loss", lambda x, y: F.multi_margin_loss(x, y), f32(5), torch.tensor([3])),
    *(case(f"aten::{loss}_margin_loss", lambda x, loss=loss, how=how: getattr(F, f"{loss}_margin_loss")(
        x, torch.tensor(0), reduction=how), f32(), not_in_archives=(how == "none") * "torch.export records another shape")
      for loss in ("multi", "multilabel") for how in ("none", "mean")),
    case("aten::mse_loss", lambda x, y: F.mse_loss(x, y), SCORES, OTHER, dynamic="x:0=n y:0=n", opsets=(13, 20)),
    case("aten::mse_loss", lambda x, y: F.mse_loss(x, y, reduction="none"), SCORES, OTHER),
    case("aten::l1_loss", lambda x, y: F.l1_loss(x, y, reduction="sum"), SCORES, OTHER),
    case("aten::smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), SCORES, OTHER),
    case("aten::smooth_l1_loss", lambda x, y: torch.ops.aten.smooth_l1_loss(x, y, 0, 0.0), SCORES, OTHER),
    case("aten::huber_loss", lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.7), SCORES, OTHER),
    case("aten::binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x, y), PROBABILITY,
         between(0, 1.0001, 4, 5)),
    case("aten::binary_cross_entropy", lambda x, y, w: F.binary_cross_entropy(x, y, w), torch.tensor([0.0, 1.0, 0.5]),
         torch.tensor([1.0, 0.0, 1.0]), f32(3)),
    case("aten::binary_cross_entropy_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x * 50, y), SCORES,
         PROBABILITY),
    case("aten::binary_cross_entropy_with_logits",
         lambda x, y, p: F.binary_cross_entropy_with_logits(x, y, pos_weight=p, reduction="none"), SCORES, PROBABILITY,
         between(0.5, 2, 5)),
    case("aten::kl_div", lambda x, y: F.kl_div(x, y, reduction="sum"), SCORES, torch.eye(5)[:4]),
    case("aten::kl_div", lambda x, y: F.kl_div(x, y, reduction="none", log_target=True), SCORES, OTHER),
    case("aten::nll_loss_nd", lambda x, y: F.nll_loss(x, y), SCORES, IGNORED_TARGETS),
    case("aten::nll_loss_nd", lambda x, y, w: F.nll_loss(x, y, w, reduction="none"), PLANES, PLANE_TARGETS,
         between(0.5, 2, 5)),
    case("aten::nll_loss", lambda x, y: torch.ops.aten.nll_loss(x, y, None, 2, 3), SCORES, TARGETS),
    case("aten::nll_loss2d", lambda x, y: torch.ops.aten.nll_loss2d(x, y), PLANES, PLANE_TARGETS),
    case("aten::cross_entropy_loss", lambda x, y: F.cross_entropy(x, y), SCORES, IGNORED_TARGETS, opsets=(13, 20)),
    case("aten::cross_entropy_loss", lambda x, y, w: F.cross_entropy(x, y, w, reduction="sum"), PLANES, PLANE_TARGETS,
         between(0.5, 2, 5)),
    case("aten::cross_entropy_loss", lambda x, y: F.cross_entropy(x, y), f32(5), torch.tensor(2)),
    case("aten::cross_entropy_loss", lambda x, y: F.cross_entropy(x, y), SCORES, PROBABILITY, dynamic="x:0=n y:0=n"),
    case("aten::cross_entropy_loss", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), SCORES, TARGETS),
    case("aten::cross_entropy_loss",
         lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1, ignore_index=4), PLANES, PLANE_TARGETS,
         between(0.5, 2, 5)),
    case("aten::cross_entropy_loss",
         lambda x, y, w: F.cross_entropy(x, y, w, reduction="none", label_smoothing=0.2), SCORES, IGNORED_TARGETS,
         between(0.5, 2, 5)),
    case("aten::cross_entropy_loss", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), f32(5), i64(0, 5)),
    case("aten::cross_entropy_loss", lambda x, y, w: F.cross_entropy(x, y.softmax(1), w, label_smoothing=0.1), SCORES,
         OTHER, between(0.5, 2, 5)),
    case("aten::kl_div", lambda x, y: F.kl_div(x, y, reduction="none"), SPECIAL, torch.tensor([0.0, 0.5, 0.0, 0.2])),
    case("aten::binary_cross_entropy_with_logits",
         lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), SPECIAL[:3],
         torch.tensor([0.0, 1.0, 0.0])),
    case("aten::binary_cross_entropy_with_logits",
         lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w, weight=w), f32(3, 4), f32(3, 4, seed=1),
         i64(1, 3, 4)),
]
