// Records and exports torch::nn modules from C++:
//
//   #include <whence/record.h>
//   whence::export_onnx(*net, {torch::randn({1, 3, 224, 224})}, "net.onnx", {.dynamic_axes = {{"x", {{0, "batch"}}}}});
//   whence::record(*net, {x}, "net.whence.json");
//
// CMake: find_package(whence) and target_link_libraries(... whence::recorder). The module is called once on the calling
// thread, in eval mode and without gradients; with dynamic axes a few more times at other sizes.
//
// Operations inside the library's own layers get their exact module without changes to the model. For operations that
// your own modules perform directly, the module is inferred from the executed code and the surrounding layers, and
// marked as inferred. To make it exact, open a ModuleScope in each such module, in forward and in every other method
// that is called from outside:
//
//   torch::Tensor forward(torch::Tensor x) {
//     whence::ModuleScope scope(*this);  // costs nothing when nothing is recorded
//
// All functions throw whence::Error with a stable code and a remedy; `whence codes` lists the codes.
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

// Assigns operations to `module` until the scope ends.
class ModuleScope {
 public:
  // typeid(Module) is the class whose code opens the scope; the module's own class may derive from it.
  template <class Module>
  explicit ModuleScope(const Module& module) : ModuleScope(module, typeid(Module)) {}
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  ModuleScope(const torch::nn::Module& module, const std::type_info& speaker);
  bool open_;
};

// Counts the recorded operations by the confidence of their modules.
struct Report {
  std::int64_t operations = 0;  // all operations of the trace
  std::int64_t exact = 0;       // operations inside a layer or a ModuleScope
  std::int64_t inferred = 0;    // operations assigned by the layers around them
  std::int64_t ancestor = 0;    // operations for which only an enclosing module is known
  // The sizes at which the module ran, by name, the example's size first. Behaviour at other sizes is unknown: a limit
  // above the largest size, as in std::min(x.size(0), 5000), is not in the file.
  std::map<std::string, std::vector<std::int64_t>> sizes;
  std::vector<std::string> dynamic;  // where constant sizes of the trace were made dynamic: "net.cpp:12 forward"
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

// Converts the result of forward for the tracer: tensors, and tuples and lists of tensors.
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
  return requires(Module& module, Inputs& inputs) { to_output(module.forward(inputs[Index]...)); };
}

template <class Module, std::size_t... Index>
c10::IValue call_with(Module& module, Inputs& inputs, std::index_sequence<Index...>) {
  return to_output(module.forward(inputs[Index]...));
}

inline constexpr std::size_t max_inputs = 16;

// Calls forward of a concrete module with all inputs. Default arguments and overloads apply.
template <class Module, std::size_t Count = 0>
c10::IValue call_forward(Module& module, Inputs& inputs, std::vector<std::size_t>& accepted) {
  if constexpr (takes<Module>(std::make_index_sequence<Count>())) {
    accepted.push_back(Count);
    if (inputs.size() == Count) return call_with(module, inputs, std::make_index_sequence<Count>());
  }
  if constexpr (Count < max_inputs) {
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

// Calls module.forward with `inputs` and writes the operations with their modules to the sidecar `path`. An error
// leaves an existing file unchanged. Throws Error: E0101 for options of archives; E0103 for invalid names of inputs or
// sizes; E0104 for inputs that forward does not accept; E0304 if a requested dynamic size is fixed in the trace; E0307
// if LibTorch is not the version that whence was built with; E0310 if the module is already being recorded; E0311 if
// the whence command is missing; E0401 if a file cannot be written.
template <class Module>
Report record(Module& module, const std::vector<at::Tensor>& inputs, const std::string& path,
              const Options& options = {}) {
  return native::record(module, inputs, native::forward_of(module), path, options);
}

// Records the module like record() and exports it to the ONNX file `path`. An error leaves an existing file unchanged.
// Throws the errors of record() and of an export, such as E0301 and E0302 with every operator that has no converter or
// that its converter refuses.
template <class Module>
Report export_onnx(Module& module, const std::vector<at::Tensor>& inputs, const std::string& path,
                   const Options& options = {}) {
  return native::export_onnx(module, inputs, native::forward_of(module), path, options);
}

// For a module whose forward takes arguments other than tensors or has another name: calls `forward` with the inputs,
// which returns a tensor, or tuples and vectors of tensors. Files and errors are as above.
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
