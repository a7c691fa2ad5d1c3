// Modules that are hard to attribute, written like user code without whence. If SCOPED is defined, every forward opens
// a ModuleScope.
#pragma once

#include <thread>

#include <torch/torch.h>
#include <whence/record.h>

#ifdef SCOPED
#define OPEN_SCOPE whence::ModuleScope scope(*this);
#else
#define OPEN_SCOPE
#endif

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

// Begins and ends with its own operations, so that the operations of consecutive blocks are adjacent.
struct BlockImpl : nn::Module {
  explicit BlockImpl(int64_t width) : linear(register_module("linear", nn::Linear(width, width))) {}
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    auto y = torch::tanh(x);
    y = linear(y);
    return torch::sigmoid(y) + x;
  }
  nn::Linear linear;
};
TORCH_MODULE(Block);

// Blocks in a Sequential, in a ModuleList and as a direct child, which is called twice in a row.
struct BlocksImpl : nn::Module {
  BlocksImpl() {
    register_module("list", list);
    for (int i = 0; i < 2; ++i) list->push_back(Block(8));
  }
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = torch::relu(x);
    x = stages->forward(x);
    for (auto& block : *list) x = block->as<Block>()->forward(x);
    x = torch::exp(x);
    x = twice->forward(x);
    x = twice->forward(x);
    return head(x);
  }
  nn::Sequential stages = register_module("stages", nn::Sequential(Block(8), Block(8), Block(8)));
  nn::ModuleList list;
  Block twice = register_module("twice", Block(8));
  nn::Linear head = register_module("head", nn::Linear(8, 4));
};
TORCH_MODULE(Blocks);

// A module without layers, called between others.
struct ScaleImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    return x * factor;
  }
  Tensor factor = register_parameter("factor", torch::full({8}, 0.5));
};
TORCH_MODULE(Scale);

struct ContainersImpl : nn::Module {
  ContainersImpl() {
    register_module("dict", dict);
    dict->update({{"up", nn::Linear(8, 16).ptr()}, {"down", nn::Linear(16, 8).ptr()}});
    register_module("any", any.ptr());
  }
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = sequence->forward(x);
    x = scale(x);
    x = dict["up"]->as<nn::Linear>()->forward(x);
    x = dict["down"]->as<nn::Linear>()->forward(x);
    x = any.forward(x);
    return x + bias;
  }
  nn::Sequential sequence = register_module(
      "sequence",
      nn::Sequential({{"first", nn::Linear(8, 8)}, {"act", nn::GELU()}, {"fun", nn::Functional(torch::relu)}}));
  Scale scale = register_module("scale", Scale());
  nn::ModuleDict dict;
  nn::AnyModule any{nn::Linear(8, 8)};
  Tensor bias = register_parameter("bias", torch::ones({8}));
};
TORCH_MODULE(Containers);

// One Linear with two names and three calls, and a weight that two layers share.
struct SharedImpl : nn::Module {
  SharedImpl() { decode->weight = embed->weight; }
  Tensor forward(Tensor ids) {
    OPEN_SCOPE
    auto x = embed(ids);
    x = torch::relu(first(x));
    x = torch::relu(second(x));
    return decode(first(x));
  }
  nn::Embedding embed = register_module("embed", nn::Embedding(20, 8));
  nn::Linear first = register_module("first", nn::Linear(8, 8));
  nn::Linear second = register_module("second", first);
  nn::Linear decode = register_module("decode", nn::Linear(nn::LinearOptions(8, 20).bias(false)));
};
TORCH_MODULE(Shared);

struct RecurrentImpl : nn::Module {
  std::tuple<Tensor, Tensor> forward(Tensor x, Tensor state) {
    OPEN_SCOPE
    auto [states, last] = lstm(x);
    auto [more, end] = gru(states, state);
    return {torch::tanh(more), end};
  }
  nn::LSTM lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(8, 6).num_layers(2).batch_first(true)));
  nn::GRU gru = register_module("gru", nn::GRU(nn::GRUOptions(6, 6).batch_first(true)));
};
TORCH_MODULE(Recurrent);

struct NormsImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = pad(x);
    x = instance(conv(x));
    x = torch::relu(batch(x));
    return up(pool(x)).flatten(1);
  }
  nn::ReflectionPad2d pad = register_module("pad", nn::ReflectionPad2d(1));
  nn::Conv2d conv = register_module("conv", nn::Conv2d(3, 4, 3));
  nn::InstanceNorm2d instance =
      register_module("instance", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)));
  nn::BatchNorm2d batch = register_module("batch", nn::BatchNorm2d(4));
  nn::MaxPool2d pool = register_module("pool", nn::MaxPool2d(2));
  nn::ConvTranspose2d up = register_module("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 2, 2).stride(2)));
};
TORCH_MODULE(Norms);

struct TranslatorImpl : nn::Module {
  Tensor forward(Tensor source, Tensor target) {
    OPEN_SCOPE
    return transformer(source, target);
  }
  nn::Transformer transformer = register_module(
      "transformer", nn::Transformer(nn::TransformerOptions(16, 4, 1, 1).dim_feedforward(32).dropout(0)));
};
TORCH_MODULE(Translator);

// Strided convolutions before LibTorch's attention. The remaining length, which LibTorch and the mask read, is not a
// multiple of the input length.
struct SpeechImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = torch::relu(second(torch::relu(first(x)))).permute({2, 0, 1});
    auto mask = torch::full({x.size(0), x.size(0)}, -1e9f).triu(1);
    return std::get<0>(attention(x, x, x, Tensor(), true, mask));
  }
  nn::Conv1d first = register_module("first", nn::Conv1d(nn::Conv1dOptions(1, 16, 10).stride(5)));
  nn::Conv1d second = register_module("second", nn::Conv1d(nn::Conv1dOptions(16, 16, 3).stride(2)));
  nn::MultiheadAttention attention = register_module("attention", nn::MultiheadAttention(16, 4));
};
TORCH_MODULE(Speech);

// Sizes in every form of LibTorch's C++ API.
struct SizesImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    const auto batch = x.size(0), length = x.sizes()[1];
    auto heads = linear(x).reshape({batch, length, 2, 4}).permute({0, 2, 1, 3}).reshape({batch * 2, length, 4});
    auto positions = torch::arange(length, x.options()).unsqueeze(1);
    auto shifted = torch::cat({heads.narrow(1, 0, length - 1), torch::zeros({batch * 2, 1, 4})}, 1);
    return (shifted + positions).view({batch, -1}).slice(1, 0, length / 2);
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};
TORCH_MODULE(Sizes);

// ---- modules that the stack does not identify ---------------------------------------------------------------------

// A derived class runs its base class's code, by a call and through a virtual function.
struct ActImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = bend(x);
    return x * 0.5;
  }
  virtual Tensor bend(Tensor x) { return torch::sigmoid(x); }
};
TORCH_MODULE(Act);

struct BentImpl : ActImpl {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = ActImpl::forward(x);
    return torch::neg(linear(x));
  }
  Tensor bend(Tensor x) override { return torch::atan(x); }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};
TORCH_MODULE(Bent);

struct DerivedImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = act(x);
    x = torch::exp(x * 0.1);
    x = bent(x);
    return x + 1;
  }
  Act act = register_module("act", Act());
  Bent bent = register_module("bent", Bent());
};
TORCH_MODULE(Derived);

// User classes that derive from layers, with operations before and after the layer's.
struct ScaledImpl : nn::LinearImpl {
  ScaledImpl() : nn::LinearImpl(8, 8) {}
  Tensor forward(const Tensor& x) {
    OPEN_SCOPE
    return LinearImpl::forward(x * 2) * 0.5;
  }
};
TORCH_MODULE(Scaled);

struct NormedImpl : nn::BatchNorm1dImpl {
  NormedImpl() : nn::BatchNorm1dImpl(8) {}
  Tensor forward(const Tensor& x) {
    OPEN_SCOPE
    return torch::relu(BatchNorm1dImpl::forward(x));
  }
};
TORCH_MODULE(Normed);

struct OwnLayersImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = scaled(torch::abs(x));
    x = normed(x);
    return scaled(x) - x;
  }
  Scaled scaled = register_module("scaled", Scaled());
  Normed normed = register_module("normed", Normed());
};
TORCH_MODULE(OwnLayers);

// Modules without layers: one is called several times in a row, two have the same class, and the root reads the
// parameter of one.
struct GateImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = torch::tanh(x);
    return x + 1;
  }
};
TORCH_MODULE(Gate);

struct StepImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = torch::relu(x);
    return x * 2;
  }
};
TORCH_MODULE(Step);

struct LayerlessImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = step(x);
    x = step(x);
    for (int i = 0; i < 2; ++i) x = step(x);
    x = a(x);
    x = torch::cos(x);
    x = b(x);
    x = a(x);
    x = scale(x);
    return x + scale->factor;
  }
  Step step = register_module("step", Step());
  Gate a = register_module("a", Gate()), b = register_module("b", Gate());
  Scale scale = register_module("scale", Scale());
};
TORCH_MODULE(Layerless);

// A class with children of its own class; the child registered second is called first.
struct TreeImpl : nn::Module {
  explicit TreeImpl(int depth) {
    if (depth == 0) return;
    right = register_module("right", std::make_shared<TreeImpl>(depth - 1));
    left = register_module("left", std::make_shared<TreeImpl>(depth - 1));
  }
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    auto y = torch::relu(x);
    if (left) {
      y = left->forward(y);
      y = y + right->forward(y);
    }
    y = linear(y);
    return torch::sin(y) * x;
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
  std::shared_ptr<TreeImpl> left, right;
};
TORCH_MODULE(Tree);

// Two instances of a template with the child classes swapped, so that only the calling frame distinguishes them.
template <class First, class Second>
struct PairImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    auto y = first(x);
    auto z = second(x);
    return y - z;
  }
  First first = this->register_module("first", First());
  Second second = this->register_module("second", Second());
};
struct PairsImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = one->forward(x);
    x = torch::exp(x * 0.1);
    return torch::abs(two->forward(x));
  }
  std::shared_ptr<PairImpl<Act, Bent>> one = register_module("one", std::make_shared<PairImpl<Act, Bent>>());
  std::shared_ptr<PairImpl<Bent, Act>> two = register_module("two", std::make_shared<PairImpl<Bent, Act>>());
};
TORCH_MODULE(Pairs);

// An unregistered object of a registered module's class; its operations belong to its owner.
struct HiddenImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    return hidden(linear(x));
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
  Act seen = register_module("seen", Act());
  Act hidden;
};
TORCH_MODULE(Hidden);

// A ModuleScope only in the base class, or only in forward.
struct WithScopeImpl : nn::Module {
  Tensor forward(Tensor x) {
    whence::ModuleScope scope(*this);
    return torch::tanh(x);
  }
  Tensor other(Tensor x) { return torch::sin(x); }
};
struct WithoutScopeImpl : WithScopeImpl {
  Tensor forward(Tensor x) { return torch::exp(WithScopeImpl::forward(x)); }
};
struct HalfScopedImpl : nn::Module {
  Tensor forward(Tensor x) { return torch::cos(without_scope->forward(with_scope->other(with_scope->forward(x)))); }
  std::shared_ptr<WithScopeImpl> with_scope = register_module("with_scope", std::make_shared<WithScopeImpl>());
  std::shared_ptr<WithoutScopeImpl> without_scope =
      register_module("without_scope", std::make_shared<WithoutScopeImpl>());
};
TORCH_MODULE(HalfScoped);

// Loops inside a call, over one layer through a helper and over several layers, and loops around calls.
struct RefineImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    for (int i = 0; i < 3; ++i) x = step(x);
    return torch::exp(norm(x) * 0.1);
  }
  Tensor step(const Tensor& x) { return torch::relu(linear(x)); }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
};
TORCH_MODULE(Refine);

struct StackedImpl : nn::Module {
  StackedImpl() {
    register_module("layers", layers);
    for (int i = 0; i < 3; ++i) layers->push_back(nn::Linear(8, 8));
  }
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    for (auto& layer : *layers) x = torch::tanh(layer->as<nn::Linear>()->forward(x));
    return x;
  }
  nn::ModuleList layers;
};
TORCH_MODULE(Stacked);

struct LoopedImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    x = stacked->forward(refine->forward(x));
    for (int i = 0; i < 3; ++i) x = again->forward(x);
    return x;
  }
  Refine refine = register_module("refine", Refine());
  Stacked stacked = register_module("stacked", Stacked());
  Block again = register_module("again", Block(8));
};
TORCH_MODULE(Looped);

// Counts its calls in a buffer.
struct CountingImpl : nn::Module {
  Tensor forward(Tensor x) {
    OPEN_SCOPE
    count.add_(1);
    return linear(x) + count;
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
  Tensor count = register_buffer("count", torch::zeros({8}));
};
TORCH_MODULE(Counting);

// ---- modules that must be refused ---------------------------------------------------------------------------------

struct ThrowsImpl : nn::Module {
  Tensor forward(Tensor x) { return linear(x); }
  nn::Linear linear = register_module("linear", nn::Linear(5, 5));
};

struct ThrowsNumberImpl : nn::Module {
  Tensor forward(Tensor x) {
    x = linear(x);
    throw 42;
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct UnregisteredImpl : nn::Module {
  Tensor forward(Tensor x) { return linear(x); }
  nn::Linear linear{8, 8};
};

// LibTorch computes the output size in floating point.
struct EnlargedImpl : nn::Module {
  Tensor forward(Tensor x) { return torch::relu(larger(x)); }
  nn::Upsample larger =
      register_module("larger", nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>({1.37}))));
};

struct LimitImpl : nn::Module {
  Tensor forward(Tensor x) {
    const auto length = std::min<int64_t>(x.size(0), 100);
    return linear(x).narrow(0, 0, length);
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct BranchImpl : nn::Module {
  Tensor forward(Tensor x) {
    if (x.sum().item<float>() > 0) x = torch::relu(x);
    return linear(x);
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct SizeBranchImpl : nn::Module {
  Tensor forward(Tensor x) {
    if (x.size(0) > 3) x = torch::relu(x);
    return linear(x);
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct BakedImpl : nn::Module {
  Tensor forward(Tensor x) { return linear(x) * std::sqrt(static_cast<double>(x.size(0))); }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct FixedImpl : nn::Module {
  Tensor forward(Tensor x) { return linear(x) + torch::ones({2, 8}); }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct ThreadedImpl : nn::Module {
  Tensor forward(Tensor x) {
    Tensor y;
    std::thread([&] { y = linear(x.detach()); }).join();
    return linear(x) + y;
  }
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

struct RecursiveImpl : nn::Module {
  Tensor forward(Tensor x) {
    if (!inside) {
      inside = true;
      whence::record(*this, {x}, "never.whence.json");
    }
    return linear(x);
  }
  bool inside = false;
  nn::Linear linear = register_module("linear", nn::Linear(8, 8));
};

}  // namespace zoo
