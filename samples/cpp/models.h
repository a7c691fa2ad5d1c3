// Three ordinary torch::nn models, without any code for whence.
#pragma once

#include <cmath>

#include <torch/torch.h>

// ---- a small ResNet: residual blocks in Sequentials ---------------------------------------------------------------

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(register_module("conv1", torch::nn::Conv2d(options(in, out, stride)))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", torch::nn::Conv2d(options(out, out, 1)))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      shortcut = register_module(
          "shortcut",
          torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                                torch::nn::BatchNorm2d(out)));
    }
  }

  static torch::nn::Conv2dOptions options(int64_t in, int64_t out, int64_t stride) {
    return torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false);
  }

  // x: [N, in, H, W] -> [N, out, H / stride, W / stride]
  torch::Tensor forward(torch::Tensor x) {
    auto y = torch::relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    y = y + (shortcut ? shortcut->forward(x) : x);
    return torch::relu(y);
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential shortcut = nullptr;
};
TORCH_MODULE(Block);

struct ResNetImpl : torch::nn::Module {
  explicit ResNetImpl(int64_t classes)
      : stem(register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(16))),
        layer1(register_module("layer1", torch::nn::Sequential(Block(16, 16, 1), Block(16, 16, 1)))),
        layer2(register_module("layer2", torch::nn::Sequential(Block(16, 32, 2), Block(32, 32, 1)))),
        head(register_module("head", torch::nn::Linear(32, classes))) {}

  // x: [N, 3, H, W] -> [N, classes]
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(stem(x)));
    x = layer2->forward(layer1->forward(x));
    x = torch::adaptive_avg_pool2d(x, {1, 1});
    return head(x.view({x.size(0), -1}));
  }

  torch::nn::Conv2d stem;
  torch::nn::BatchNorm2d norm;
  torch::nn::Sequential layer1, layer2;
  torch::nn::Linear head;
};
TORCH_MODULE(ResNet);

// ---- a Transformer encoder over token ids -------------------------------------------------------------------------

struct TextEncoderImpl : torch::nn::Module {
  TextEncoderImpl(int64_t words, int64_t width)
      : embedding(register_module("embedding", torch::nn::Embedding(words, width))),
        encoder(register_module(
            "encoder",
            torch::nn::TransformerEncoder(
                torch::nn::TransformerEncoderLayer(
                    torch::nn::TransformerEncoderLayerOptions(width, 4).dim_feedforward(4 * width).dropout(0)),
                2))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))) {
    auto position = torch::arange(512).unsqueeze(1);
    auto step = torch::exp(torch::arange(0, width, 2) * (-std::log(10000.0) / static_cast<double>(width)));
    auto table = torch::zeros({512, width});
    table.slice(1, 0, width, 2) = torch::sin(position * step);
    table.slice(1, 1, width, 2) = torch::cos(position * step);
    positions = register_buffer("positions", table);
  }

  // ids: int64 [N, length] -> [N, length, width]
  torch::Tensor forward(torch::Tensor ids) {
    auto x = embedding(ids) + positions.slice(0, 0, ids.size(1));
    x = encoder(x.transpose(0, 1), torch::Tensor(), torch::Tensor());  // LibTorch's layers take [length, N, width]
    return norm(x.transpose(0, 1));
  }

  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoder encoder;
  torch::nn::LayerNorm norm;
  torch::Tensor positions;
};
TORCH_MODULE(TextEncoder);

// ---- an LSTM that tags words --------------------------------------------------------------------------------------

struct TaggerImpl : torch::nn::Module {
  TaggerImpl(int64_t words, int64_t tags)
      : embedding(register_module("embedding", torch::nn::Embedding(words, 24))),
        lstm(register_module("lstm",
                             torch::nn::LSTM(torch::nn::LSTMOptions(24, 32).batch_first(true).bidirectional(true)))),
        tags(register_module("tags", torch::nn::Linear(64, tags))) {}

  // ids: int64 [N, length] -> log probabilities [N, length, tags]
  torch::Tensor forward(torch::Tensor ids) {
    auto [states, last] = lstm(embedding(ids));
    return torch::log_softmax(tags(states), /*dim=*/-1);
  }

  torch::nn::Embedding embedding;
  torch::nn::LSTM lstm;
  torch::nn::Linear tags;
};
TORCH_MODULE(Tagger);
