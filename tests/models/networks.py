"""The networks of the zoo: classes of transformers if available, otherwise defined here."""

import torch
import torch.nn.functional as F
from torch import nn


def bert_tiny():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=30522, num_hidden_layers=2, hidden_size=128, num_attention_heads=2,
                                intermediate_size=512))


def distilbert():
    from transformers import DistilBertConfig, DistilBertModel

    return DistilBertModel(DistilBertConfig(vocab_size=2000, n_layers=2, dim=96, n_heads=4, hidden_dim=192))


def gpt2():
    """A language model whose head is tied to the token embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=5000, n_layer=3, n_embd=96, n_head=4, n_positions=128, bos_token_id=0,
                                      eos_token_id=0, use_cache=False))


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_hidden_layers=2, hidden_size=64,
                                               num_attention_heads=4, intermediate_size=128, num_labels=10))


def mobilenet_v2():
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(image_size=64, depth_multiplier=0.5, num_labels=10))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions with a shortcut (He et al. 2015, in torchvision's layout)."""

    def __init__(self, channels_in, width, stride, project):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if project:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, width * 4, 1, stride=stride, bias=False),
                                            nn.BatchNorm2d(width * 4))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += shortcut
        return self.relu(x)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self.stage(64, 64, 3, stride=1)
        self.layer2 = self.stage(256, 128, 4, stride=2)
        self.layer3 = self.stage(512, 256, 6, stride=2)
        self.layer4 = self.stage(1024, 512, 3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2048, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def stage(channels_in, width, blocks, stride):
        layers = [Bottleneck(channels_in, width, stride, project=True)]
        layers += [Bottleneck(width * 4, width, 1, project=False) for _ in range(blocks - 1)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def double_convolution(channels_in, channels_out):
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.BatchNorm2d(channels_out), nn.ReLU(),
                         nn.Conv2d(channels_out, channels_out, 3, padding=1), nn.BatchNorm2d(channels_out), nn.ReLU())


class Up(nn.Module):
    def __init__(self, channels_in, channels_out, transposed):
        super().__init__()
        if transposed:
            self.up = nn.ConvTranspose2d(channels_in, channels_in // 2, 2, stride=2)
        else:
            self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                                    nn.Conv2d(channels_in, channels_in // 2, 1))
        self.convolutions = double_convolution(channels_in, channels_out)

    def forward(self, x, skip):
        return self.convolutions(torch.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    """Three levels; one decoder step learns its upsampling, the other interpolates."""

    def __init__(self):
        super().__init__()
        self.stem = double_convolution(3, 8)
        self.down = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), double_convolution(8, 16)),
                                   nn.Sequential(nn.MaxPool2d(2), double_convolution(16, 32))])
        self.up = nn.ModuleList([Up(32, 16, transposed=True), Up(16, 8, transposed=False)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skips = [self.stem(x)]
        for step in self.down:
            skips.append(step(skips[-1]))
        x = skips.pop()
        for step in self.up:
            x = step(x, skips.pop())
        return torch.sigmoid(self.head(x))


class LstmTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 32)
        self.lstm = nn.LSTM(32, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(48, 9)

    def forward(self, input_ids):
        states, _ = self.lstm(self.embedding(input_ids))
        return F.log_softmax(self.classifier(self.dropout(states)), dim=-1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)))


class SharedBlock(nn.Module):
    """Shares modules in every possible way and uses every container."""

    def __init__(self):
        super().__init__()
        self.block = Residual()                   # called three times
        self.first_name = nn.Linear(8, 8)         # one object under two names
        self.second_name = self.first_name
        self.layers = nn.ModuleList([Residual(), Residual()])
        self.heads = nn.ModuleDict({"mean": nn.Linear(8, 4), "scale": nn.Linear(8, 4)})
        self.tail = nn.Sequential(nn.Linear(8, 8), nn.Identity(), nn.GELU(), self.block)
        self.unused = nn.Linear(8, 3)             # never called
        self.weight = nn.Parameter(torch.eye(8))  # used by a functional call

    def forward(self, x):
        x = self.block(self.block(x))
        x = F.relu(self.first_name(x)) + self.second_name(x)
        for layer in self.layers:
            x = layer(x)
        x = F.linear(self.tail(x), self.weight)
        return self.heads["mean"](x), F.softplus(self.heads["scale"](x))
