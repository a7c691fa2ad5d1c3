// Makes LibTorch's layers announce their calls. Their forwards are defined here a second time. Symbols are looked up in
// the user's program first, so the program and LibTorch itself call these definitions. Each opens a scope and calls
// LibTorch's own forward, found by dlsym().
//
// Each layer has one line, grouped by signature. A line that contradicts LibTorch's headers does not compile.
// tests/native finds a missing line: it compares the table with the symbols of libtorch_cpu.so.
//
// The macro for a layer follows from the parameters of its forward (torch/nn/modules/*.h):
//   const Tensor&, or Tensor by value    WHENCE_LAYER, WHENCE_LAYER_BY_VALUE
//   two or three const Tensor&           WHENCE_LAYER_OF_2, WHENCE_LAYER_OF_3
//   a tensor and an output's size        WHENCE_CONV_TRANSPOSE; for unpooling: WHENCE_UNPOOL
//   an input and a state                 WHENCE_RECURRENT
//   forward is a member of a template    WHENCE_PAD; for normalisation, whose template is in a header: WHENCE_NORM
//   anything else                        WHENCE_METHOD, with the parameter types as they are mangled
//
// The mangled types follow "7forwardE" in the output of `nm -D libtorch_cpu.so | grep 10LinearImpl7forward`. Each name
// is preceded by its length. S<n>_ refers back to a type written earlier, counted from S_, S0_, S1_: torch, torch::nn,
// the class, at, Tensor (S3_), const Tensor (S4_), const Tensor& (S5_). So (const Tensor&, const Tensor&) is
// RKN2at6TensorES5_ and (const Tensor&, Tensor) is RKN2at6TensorES3_. The same test finds a wrong mangling, and a call
// of such a layer throws.
#include <optional>
#include <tuple>
#include <vector>

#include <torch/nn.h>

#include "recorder/native/layer_scope.h"

// The linker defines symbols for the start and end of this section. native_stack.h recognises this file's code by them.
#define WHENCE_SECTION __attribute__((section("whence_layers")))
extern "C" const char __start_whence_layers[], __stop_whence_layers[];

namespace whence::native {
namespace {

// Returns LibTorch's own member function as a function that takes `this` first.
template <class Result, class Layer, class... Parameters>
auto next_of(Result (Layer::*)(Parameters...), const std::string& mangled) {
  return reinterpret_cast<Result (*)(Layer*, Parameters...)>(next_in_libtorch(mangled));
}

// Mangles a member's name, each part preceded by its length: "Conv2dImpl" -> "_ZN5torch2nn10Conv2dImpl...".
std::string mangled_member(const std::string& layer, const std::string& method, const std::string& parameters) {
  return "_ZN5torch2nn" + std::to_string(layer.size()) + layer + std::to_string(method.size()) + method + "E" +
         parameters;
}

[[maybe_unused]] const bool registered = [] {
  register_layers(__start_whence_layers, __stop_whence_layers);
  return true;
}();

}  // namespace
}  // namespace whence::native

namespace torch::nn {

// Mangled names of parameter types. S3_ and S5_ refer back to Tensor and to const Tensor&.
#define WHENCE_TENSOR "N2at6TensorE"
#define WHENCE_TENSOR_REF "RKN2at6TensorE"

#define WHENCE_METHOD(Layer, Method, Result, Parameters, Arguments, Mangled)                                           \
  WHENCE_SECTION Result Layer##Impl::Method Parameters {                                                               \
    static const auto next = whence::native::next_of(&Layer##Impl::Method,                                             \
                                                     whence::native::mangled_member(#Layer "Impl", #Method, Mangled)); \
    const whence::native::LayerScope scope(this);                                                                      \
    return next Arguments;                                                                                             \
  }

// ---- Tensor forward(const Tensor&) --------------------------------------------------------------------------------

#define WHENCE_LAYER(Layer) WHENCE_METHOD(Layer, forward, Tensor, (const Tensor& x), (this, x), WHENCE_TENSOR_REF)

WHENCE_LAYER(AdaptiveAvgPool1d)
WHENCE_LAYER(AdaptiveAvgPool2d)
WHENCE_LAYER(AdaptiveAvgPool3d)
WHENCE_LAYER(AdaptiveMaxPool1d)
WHENCE_LAYER(AdaptiveMaxPool2d)
WHENCE_LAYER(AdaptiveMaxPool3d)
WHENCE_LAYER(AlphaDropout)
WHENCE_LAYER(AvgPool1d)
WHENCE_LAYER(AvgPool2d)
WHENCE_LAYER(AvgPool3d)
WHENCE_LAYER(Conv1d)
WHENCE_LAYER(Conv2d)
WHENCE_LAYER(Conv3d)
WHENCE_LAYER(CrossMapLRN2d)
WHENCE_LAYER(Embedding)
WHENCE_LAYER(FeatureAlphaDropout)
WHENCE_LAYER(Flatten)
WHENCE_LAYER(Fold)
WHENCE_LAYER(FractionalMaxPool2d)
WHENCE_LAYER(FractionalMaxPool3d)
WHENCE_LAYER(GELU)
WHENCE_LAYER(GLU)
WHENCE_LAYER(GroupNorm)
WHENCE_LAYER(Hardshrink)
WHENCE_LAYER(Identity)
WHENCE_LAYER(LPPool1d)
WHENCE_LAYER(LPPool2d)
WHENCE_LAYER(LPPool3d)
WHENCE_LAYER(LayerNorm)
WHENCE_LAYER(Linear)
WHENCE_LAYER(LocalResponseNorm)
WHENCE_LAYER(LogSigmoid)
WHENCE_LAYER(LogSoftmax)
WHENCE_LAYER(MaxPool1d)
WHENCE_LAYER(MaxPool2d)
WHENCE_LAYER(MaxPool3d)
WHENCE_LAYER(Mish)
WHENCE_LAYER(PReLU)
WHENCE_LAYER(PixelShuffle)
WHENCE_LAYER(PixelUnshuffle)
WHENCE_LAYER(SiLU)
WHENCE_LAYER(Sigmoid)
WHENCE_LAYER(Softmax)
WHENCE_LAYER(Softmax2d)
WHENCE_LAYER(Softmin)
WHENCE_LAYER(Softplus)
WHENCE_LAYER(Softshrink)
WHENCE_LAYER(Softsign)
WHENCE_LAYER(Tanh)
WHENCE_LAYER(Tanhshrink)
WHENCE_LAYER(Unflatten)
WHENCE_LAYER(Unfold)
WHENCE_LAYER(Upsample)

// ---- Tensor forward(Tensor) ---------------------------------------------------------------------------------------

#define WHENCE_LAYER_BY_VALUE(Layer) \
  WHENCE_METHOD(Layer, forward, Tensor, (Tensor x), (this, std::move(x)), WHENCE_TENSOR)

WHENCE_LAYER_BY_VALUE(CELU)
WHENCE_LAYER_BY_VALUE(Dropout)
WHENCE_LAYER_BY_VALUE(Dropout2d)
WHENCE_LAYER_BY_VALUE(Dropout3d)
WHENCE_LAYER_BY_VALUE(ELU)
WHENCE_LAYER_BY_VALUE(Functional)
WHENCE_LAYER_BY_VALUE(Hardtanh)
WHENCE_LAYER_BY_VALUE(LeakyReLU)
WHENCE_LAYER_BY_VALUE(RReLU)
WHENCE_LAYER_BY_VALUE(ReLU)
WHENCE_LAYER_BY_VALUE(ReLU6)
WHENCE_LAYER_BY_VALUE(SELU)
WHENCE_LAYER_BY_VALUE(Threshold)

// ---- Tensor forward(const Tensor&, const Tensor&) -----------------------------------------------------------------

#define WHENCE_LAYER_OF_2(Layer) \
  WHENCE_METHOD(Layer, forward, Tensor, (const Tensor& x, const Tensor& y), (this, x, y), WHENCE_TENSOR_REF "S5_")

WHENCE_LAYER_OF_2(BCELoss)
WHENCE_LAYER_OF_2(BCEWithLogitsLoss)
WHENCE_LAYER_OF_2(Bilinear)
WHENCE_LAYER_OF_2(CosineSimilarity)
WHENCE_LAYER_OF_2(CrossEntropyLoss)
WHENCE_LAYER_OF_2(GRUCell)
WHENCE_LAYER_OF_2(HingeEmbeddingLoss)
WHENCE_LAYER_OF_2(HuberLoss)
WHENCE_LAYER_OF_2(KLDivLoss)
WHENCE_LAYER_OF_2(L1Loss)
WHENCE_LAYER_OF_2(MSELoss)
WHENCE_LAYER_OF_2(MultiLabelMarginLoss)
WHENCE_LAYER_OF_2(MultiLabelSoftMarginLoss)
WHENCE_LAYER_OF_2(MultiMarginLoss)
WHENCE_LAYER_OF_2(NLLLoss)
WHENCE_LAYER_OF_2(PairwiseDistance)
WHENCE_LAYER_OF_2(PoissonNLLLoss)
WHENCE_LAYER_OF_2(RNNCell)
WHENCE_LAYER_OF_2(SmoothL1Loss)
WHENCE_LAYER_OF_2(SoftMarginLoss)

// ---- Tensor forward(const Tensor&, const Tensor&, const Tensor&) --------------------------------------------------

#define WHENCE_LAYER_OF_3(Layer)                                                                              \
  WHENCE_METHOD(Layer, forward, Tensor, (const Tensor& x, const Tensor& y, const Tensor& z), (this, x, y, z), \
                WHENCE_TENSOR_REF "S5_S5_")

WHENCE_LAYER_OF_3(CosineEmbeddingLoss)
WHENCE_LAYER_OF_3(EmbeddingBag)
WHENCE_LAYER_OF_3(MarginRankingLoss)
WHENCE_LAYER_OF_3(TransformerEncoder)
WHENCE_LAYER_OF_3(TransformerEncoderLayer)
WHENCE_LAYER_OF_3(TripletMarginLoss)
WHENCE_LAYER_OF_3(TripletMarginWithDistanceLoss)

// ---- pooling that also returns the indices of the maxima ----------------------------------------------------------

using TwoTensors = std::tuple<Tensor, Tensor>;
#define WHENCE_WITH_INDICES(Layer) \
  WHENCE_METHOD(Layer, forward_with_indices, TwoTensors, (const Tensor& x), (this, x), WHENCE_TENSOR_REF)

WHENCE_WITH_INDICES(AdaptiveMaxPool1d)
WHENCE_WITH_INDICES(AdaptiveMaxPool2d)
WHENCE_WITH_INDICES(AdaptiveMaxPool3d)
WHENCE_WITH_INDICES(FractionalMaxPool2d)
WHENCE_WITH_INDICES(FractionalMaxPool3d)
WHENCE_WITH_INDICES(MaxPool1d)
WHENCE_WITH_INDICES(MaxPool2d)
WHENCE_WITH_INDICES(MaxPool3d)

// ---- layers that take a size --------------------------------------------------------------------------------------

using OptionalSize = std::optional<at::IntArrayRef>;
#define WHENCE_CONV_TRANSPOSE(Layer)                                                                  \
  WHENCE_METHOD(Layer, forward, Tensor, (const Tensor& x, const OptionalSize& size), (this, x, size), \
                WHENCE_TENSOR_REF "RKSt8optionalIN3c108ArrayRefIlEEE")

WHENCE_CONV_TRANSPOSE(ConvTranspose1d)
WHENCE_CONV_TRANSPOSE(ConvTranspose2d)
WHENCE_CONV_TRANSPOSE(ConvTranspose3d)

using OptionalSizes = std::optional<std::vector<std::int64_t>>;
#define WHENCE_UNPOOL(Layer)                                                                                 \
  WHENCE_METHOD(Layer, forward, Tensor, (const Tensor& x, const Tensor& indices, const OptionalSizes& size), \
                (this, x, indices, size), WHENCE_TENSOR_REF "S5_RKSt8optionalISt6vectorIlSaIlEEE")

WHENCE_UNPOOL(MaxUnpool1d)
WHENCE_UNPOOL(MaxUnpool2d)
WHENCE_UNPOOL(MaxUnpool3d)

// ---- recurrent layers ---------------------------------------------------------------------------------------------

using TensorAndState = std::tuple<Tensor, TwoTensors>;
using OptionalState = std::optional<TwoTensors>;
using PackedSequence = utils::rnn::PackedSequence;
using PackedAndTensor = std::tuple<PackedSequence, Tensor>;
using PackedAndState = std::tuple<PackedSequence, TwoTensors>;
#define WHENCE_PACKED "RKNS0_5utils3rnn14PackedSequenceE"

#define WHENCE_RECURRENT(Layer)                                                                             \
  WHENCE_METHOD(Layer, forward, TwoTensors, (const Tensor& x, Tensor state), (this, x, std::move(state)),   \
                WHENCE_TENSOR_REF "S3_")                                                                    \
  WHENCE_METHOD(Layer, forward_with_packed_input, PackedAndTensor, (const PackedSequence& x, Tensor state), \
                (this, x, std::move(state)), WHENCE_PACKED WHENCE_TENSOR)

WHENCE_RECURRENT(RNN)
WHENCE_RECURRENT(GRU)
WHENCE_METHOD(LSTM, forward, TensorAndState, (const Tensor& x, OptionalState state), (this, x, std::move(state)),
              WHENCE_TENSOR_REF "St8optionalISt5tupleIJS3_S3_EEE")
WHENCE_METHOD(LSTM, forward_with_packed_input, PackedAndState, (const PackedSequence& x, OptionalState state),
              (this, x, std::move(state)), WHENCE_PACKED "St8optionalISt5tupleIJN2at6TensorESA_EEE")
WHENCE_METHOD(LSTMCell, forward, TwoTensors, (const Tensor& x, OptionalState state), (this, x, std::move(state)),
              WHENCE_TENSOR_REF "St8optionalISt5tupleIJS3_S3_EEE")

// ---- attention, transformers, and layers with a signature of their own ---------------------------------------------

WHENCE_METHOD(MultiheadAttention, forward, TwoTensors,
              (const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& padding, bool weights,
               const Tensor& mask, bool average),
              (this, query, key, value, padding, weights, mask, average), WHENCE_TENSOR_REF "S5_S5_S5_bS5_b")
WHENCE_METHOD(Transformer, forward, Tensor,
              (const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& f,
               const Tensor& g, const Tensor& h),
              (this, a, b, c, d, e, f, g, h), WHENCE_TENSOR_REF "S5_S5_S5_S5_S5_S5_S5_")
WHENCE_METHOD(TransformerDecoder, forward, Tensor,
              (const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& f),
              (this, a, b, c, d, e, f), WHENCE_TENSOR_REF "S5_S5_S5_S5_S5_")
WHENCE_METHOD(TransformerDecoderLayer, forward, Tensor,
              (Tensor a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& f),
              (this, std::move(a), b, c, d, e, f), WHENCE_TENSOR "RKS3_S5_S5_S5_S5_")
WHENCE_METHOD(CTCLoss, forward, Tensor, (const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d),
              (this, a, b, c, d), WHENCE_TENSOR_REF "S5_S5_S5_")
WHENCE_METHOD(AdaptiveLogSoftmaxWithLoss, forward, ASMoutput, (const Tensor& x, const Tensor& target),
              (this, x, target), WHENCE_TENSOR_REF "S5_")

// ---- padding: members of templates, instantiated in LibTorch -------------------------------------------------------

std::string mangled_pad(const std::string& kind, int dimensions) {
  const std::string family = kind + "PadImpl", layer = kind + "Pad" + std::to_string(dimensions) + "dImpl";
  return "_ZN5torch2nn" + std::to_string(family.size()) + family + "ILm" + std::to_string(dimensions) + "ENS0_" +
         std::to_string(layer.size()) + layer + "EE7forwardE" WHENCE_TENSOR_REF;
}

#define WHENCE_PAD_OF(Kind, D)                                                                           \
  template <>                                                                                            \
  WHENCE_SECTION Tensor Kind##PadImpl<D, Kind##Pad##D##dImpl>::forward(const Tensor& x) {                \
    static const auto next =                                                                             \
        whence::native::next_of(&Kind##PadImpl<D, Kind##Pad##D##dImpl>::forward, mangled_pad(#Kind, D)); \
    const whence::native::LayerScope scope(this);                                                        \
    return next(this, x);                                                                                \
  }
#define WHENCE_PAD(Kind) WHENCE_PAD_OF(Kind, 1) WHENCE_PAD_OF(Kind, 2) WHENCE_PAD_OF(Kind, 3)

WHENCE_PAD(Constant)
WHENCE_PAD(Reflection)
WHENCE_PAD(Replication)
WHENCE_PAD(Zero)

// ---- normalisation: forward is a template in a header, so it is compiled into the user's program and may be inlined.
// It first calls LibTorch's virtual function that checks the input's dimensions, which is interposed instead.

#define WHENCE_NORM_OF(Kind, D, Operation)                                                               \
  WHENCE_SECTION void Kind##Norm##D##dImpl::_check_input_dim(const Tensor& x) {                          \
    static const auto next = whence::native::next_of(                                                    \
        &Kind##Norm##D##dImpl::_check_input_dim,                                                         \
        whence::native::mangled_member(#Kind "Norm" #D "dImpl", "_check_input_dim", WHENCE_TENSOR_REF)); \
    next(this, x);                                                                                       \
    whence::native::expect_operation(this, Operation);                                                   \
  }
#define WHENCE_NORM(Kind, Operation) \
  WHENCE_NORM_OF(Kind, 1, Operation) WHENCE_NORM_OF(Kind, 2, Operation) WHENCE_NORM_OF(Kind, 3, Operation)

WHENCE_NORM(Batch, "aten::batch_norm")
WHENCE_NORM(Instance, "aten::instance_norm")

}  // namespace torch::nn
