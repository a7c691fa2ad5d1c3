"""Convolutions over one to three axes: strides, dilation, groups, padding by name, unbatched, transposed."""

import torch
import torch.nn.functional as F
from torch import nn

from ops.case import case, f32

TOLERANCE = (1e-4, 1e-4)


def conv(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


CASES = [
    conv("aten::_convolution", nn.Conv2d(3, 4, 3, padding=1), f32(2, 3, 8, 8), dynamic="input:0=n,2=h,3=w",
         opsets=(13, 20, 23)),
    conv("aten::_convolution", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), dilation=(1, 2), groups=2, bias=False),
         f32(2, 4, 9, 8)),
    conv("aten::_convolution", nn.Conv1d(3, 4, 3, stride=2, padding=1), f32(2, 3, 9)),
    conv("aten::_convolution", nn.Conv3d(2, 3, 2, padding=(0, 1, 1)), f32(1, 2, 4, 5, 6)),
    conv("aten::_convolution", nn.Conv2d(3, 4, 3), f32(3, 8, 8)),
    conv("aten::_convolution", nn.Conv1d(3, 4, 3), f32(3, 8)),
    conv("aten::_convolution", nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), f32(2, 3, 5, 6),
         dynamic="input:0=n,2=h"),
    conv("aten::_convolution", lambda x, w: F.conv2d(x, w), f32(2, 3, 6, 6), f32(4, 3, 3, 3)),
    conv("aten::_convolution.deprecated",
         lambda x, w: torch._convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True),
         f32(2, 3, 6, 6), f32(4, 3, 3, 3)),
    conv("aten::convolution",
         "def forward(self, x, w):\n  return torch.convolution(x, w, None, [2], [1], [1], False, [0], 1)",
         f32(2, 3, 9), f32(4, 3, 3)),
    conv("aten::convolution",
         "def forward(self, x, w):\n  return torch.convolution(x, w, None, [2], [1], [1], True, [1], 1)",
         f32(2, 3, 9), f32(3, 4, 3)),
    conv("aten::_convolution_mode", nn.Conv2d(3, 4, (3, 4), padding="same", dilation=(2, 1)), f32(1, 3, 8, 8),
         dynamic="input:2=h"),
    conv("aten::_convolution_mode", nn.Conv1d(3, 4, 4, padding="valid"), f32(3, 8)),
    conv("aten::conv1d", "def forward(self, x, w, b):\n  return torch.conv1d(x, w, b, [2], [1], [1], 1)", f32(2, 3, 9),
         f32(4, 3, 3), f32(4)),
    conv("aten::conv2d", "def forward(self, x, w):\n  return torch.conv2d(x, w, None, [2, 1], [1, 0], [1, 2], 2)",
         f32(2, 4, 9, 9), f32(4, 2, 3, 3)),
    conv("aten::conv3d", "def forward(self, x, w):\n  return torch.conv3d(x, w)", f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2)),
    conv("aten::conv1d.padding", "def forward(self, x, w):\n  return torch.conv1d(x, w, padding='same')", f32(2, 3, 9),
         f32(4, 3, 4)),
    conv("aten::conv2d.padding", "def forward(self, x, w):\n  return torch.conv2d(x, w, padding='same')",
         f32(2, 3, 9, 7), f32(4, 3, 2, 5)),
    conv("aten::conv3d.padding", "def forward(self, x, w):\n  return torch.conv3d(x, w, padding='valid')",
         f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2)),
    conv("aten::conv_transpose1d",
         "def forward(self, x, w, b):\n  return torch.conv_transpose1d(x, w, b, [2], [1], [1], 1, [2])", f32(2, 3, 9),
         f32(3, 4, 3), f32(4)),
    *[conv("aten::conv_transpose1d",
           f"def forward(self, x, w, b):\n  return torch.conv_transpose1d(x, w, b, [1], [{padding}], [3], 1, [4])",
           f32(2, 3, 5), f32(3, 4, 3), f32(4)) for padding in (0, 1, 2)],
    conv("aten::_convolution", nn.ConvTranspose2d(3, 4, 3, stride=(1, 2), padding=(0, 1), output_padding=(1, 1),
                                                  dilation=(2, 1)), f32(2, 3, 5, 6), dynamic="input:0=n,2=h"),
    conv("aten::conv_transpose2d.input",
         "def forward(self, x, w):\n  return torch.conv_transpose2d(x, w, None, [2, 1], [1, 0], [1, 0], 2)",
         f32(2, 4, 5, 6), f32(4, 3, 3, 3)),
    conv("aten::conv_transpose3d.input", "def forward(self, x, w):\n  return torch.conv_transpose3d(x, w)",
         f32(1, 2, 3, 4, 5), f32(2, 3, 2, 2, 2)),
    case("aten::conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b), f32(7, 2, 3), f32(3, 3, 4, seed=1), f32(4, seed=2),
         tolerance=(1e-4, 1e-4)),
    case("aten::conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 2), f32(7, 2, 3), f32(3, 3, 4, seed=1),
         f32(4, seed=2), tolerance=(1e-4, 1e-4), dynamic="x:0=t,1=n", not_in_archives="torch.export fixes its sizes",
         not_at={"n=t=0": "in int64, ATen's decomposition has a Reshape that treats a computed 0 as the input's size"}),
]
