// Record and export torch::nn modules from C++:
//
//   #include <whence/record.h>
//   whence::export_onnx(*net, {torch::randn({1, 3, 224, 224})}, "net.onnx", {.dynamic_axes = {{"x", {{0, "batch"}}}}});
//   whence::record(*net, {x}, "net.whence.json");
//
// CMake: find_package(whence) and target_link_libraries(... whence::recorder). The module is called once, and with
// dynamic axes a few times more at other sizes, on the calling thread, in eval mode and without gradients.
//
// The module of an operation is exact inside the library's own layers, found without any help of the model.
// For the operations that a module of your own performs itself it is inferred from the code that ran and the layers
// around them, and marked so, unless every such module below says who it is, in forward and in whatever else of it is
// called from outside:
//
//   torch::Tensor forward(torch::Tensor x) {
//     whence::ModuleScope scope(*this);  // costs nothing when nothing is recorded
//
// Everything throws whence::Error, with a stable code and a remedy: `whence codes` lists them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include "whence/diagnostics.h"
#include "whence/options.h"

namespace whence {

// Says that operations belong to `module` until the scope ends.
class ModuleScope {
 public:
  // The class in whose code this stands is told apart from the module's own, which may derive from it.
  template <class Module>
  explicit ModuleScope(const Module& module) : ModuleScope(module, typeid(Module)) {}
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  ModuleScope(const torch::nn::Module& module, const std::type_info& speaker);
  bool open_;
};

// Counts the recorded operations by how sure whence is of their modules.
struct Report {
  std::int64_t operations = 0;  // those in the trace
  std::int64_t exact = 0;       // those inside a layer or a ModuleScope
  std::int64_t inferred = 0;    // those concluded from the layers around them
  std::int64_t ancestor = 0;    // those of which only an enclosing module is known
  // The sizes at which the module was run, by the name of the size, the example's first. What happens at others is not
  // known: a limit beyond the largest, as of std::min(x.size(0), 5000), is not in the file.
  std::map<std::string, std::vector<std::int64_t>> sizes;
  std::vector<std::string> dynamic;  // sizes that the trace had baked and that were made dynamic: "net.cpp:12 forward"
  Diagnostics notes;                 // warnings
};

namespace native {

using Inputs = std::vector<at::Tensor>;
using Forward = std::function<c10::IValue(Inputs&)>;

Report record(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const std::string& path,
              const Options& options, const char* torch_version = TORCH_VERSION);
Report export_onnx(torch::nn::Module& module, const Inputs& inputs, const Forward& forward, const std::string& path,
                   const Options& options, const char* torch_version = TORCH_VERSION);
// Throws Error(needs_libtorch) unless whence was built with this version too.
void check_torch_version(const std::string& built_with);
[[noreturn]] void refuse_input_count(std::size_t inputs, const std::vector<std::size_t>& accepted);

// Convert what forward returns to what the tracer takes: tensors, and tuples and lists of them.
inline c10::IValue to_output(const at::Tensor& tensor) { return tensor; }
inline c10::IValue to_output(const c10::IValue& value) { return value; }
template <class First, class Second>
c10::IValue to_output(const std::pair<First, Second>& pair);
template <class... Elements>
c10::IValue to_output(const std::tuple<Elements...>& tuple);
template <class Element>
c10::IValue to_output(const std::vector<Element>& list) {
  std::vector<c10::IValue> elements;
  for (const Element& element : list) elements.push_back(to_output(element));
  return c10::ivalue::Tuple::create(std::move(elements));
}
template <class... Elements>
c10::IValue to_output(const std::tuple<Elements...>& tuple) {
  return std::apply(
      [](const auto&... elements) -> c10::IValue { return c10::ivalue::Tuple::create({to_output(elements)...}); },
      tuple);
}
template <class First, class Second>
c10::IValue to_output(const std::pair<First, Second>& pair) {
  return c10::ivalue::Tuple::create({to_output(pair.first), to_output(pair.second)});
}

template <class Module, std::size_t... Index>
constexpr bool takes(std::index_sequence<Index...>) {
  return requires(Module & module, Inputs & inputs) { to_output(module.forward(inputs[Index]...)); };
}

template <class Module, std::size_t... Index>
c10::IValue call_with(Module& module, Inputs& inputs, std::index_sequence<Index...>) {
  return to_output(module.forward(inputs[Index]...));
}

inline constexpr std::size_t most_inputs = 16;

// forward of a concrete module with as many tensors as are given; its defaults and overloads apply.
template <class Module, std::size_t Count = 0>
c10::IValue call_forward(Module& module, Inputs& inputs, std::vector<std::size_t>& accepted) {
  if constexpr (takes<Module>(std::make_index_sequence<Count>())) {
    accepted.push_back(Count);
    if (inputs.size() == Count) return call_with(module, inputs, std::make_index_sequence<Count>());
  }
  if constexpr (Count < most_inputs) {
    return call_forward<Module, Count + 1>(module, inputs, accepted);
  } else {
    refuse_input_count(inputs.size(), accepted);
  }
}

template <class Module>
Forward forward_of(Module& module) {
  return [&module](Inputs& inputs) {
    std::vector<std::size_t> accepted;
    return call_forward(module, inputs, accepted);
  };
}

}  // namespace native

// Calls module.forward with `inputs` and writes what it did, and which module did it, to the sidecar `path`. The file
// is replaced as a whole when all went well, and stays as it was when there is an error. Throws Error: E0101 for
// options of archives; E0103 for names that inputs or sizes cannot have; E0104 for inputs that forward does not take;
// E0304 where a size that was to be dynamic is fixed in the trace; E0307 for another LibTorch than whence was built
// with; E0310 while the module is being recorded already; E0311 without the whence command; E0401 when a file cannot be
// written.
template <class Module>
Report record(Module& module, const std::vector<at::Tensor>& inputs, const std::string& path,
              const Options& options = {}) {
  return native::record(module, inputs, native::forward_of(module), path, options);
}

// The same, and writes the ONNX file `path`, which is replaced as a whole, or not touched when there is an error.
// Throws Error as record() does, and what an export throws, such as E0301 and E0302 with every operator that has no
// converter or is refused by it.
template <class Module>
Report export_onnx(Module& module, const std::vector<at::Tensor>& inputs, const std::string& path,
                   const Options& options = {}) {
  return native::export_onnx(module, inputs, native::forward_of(module), path, options);
}

// For a module whose forward takes something else than tensors, or is not called forward: `forward` is called with the
// inputs and returns a tensor, or tuples and vectors of tensors. Files and errors are as above.
template <class Callable>
Report record_call(torch::nn::Module& module, const std::vector<at::Tensor>& inputs, Callable&& forward,
                   const std::string& path, const Options& options = {}) {
  return native::record(
      module, inputs, [&](native::Inputs& tensors) { return native::to_output(forward(tensors)); }, path, options);
}
template <class Callable>
Report export_onnx_call(torch::nn::Module& module, const std::vector<at::Tensor>& inputs, Callable&& forward,
                        const std::string& path, const Options& options = {}) {
  return native::export_onnx(
      module, inputs, [&](native::Inputs& tensors) { return native::to_output(forward(tensors)); }, path, options);
}

}  // namespace whence
