// Options of a recording and an export, shared by live modules (record.h), archives (export.h), `whence export` and,
// under the names of torch.onnx.export, Python. tools/whence/export_options.cpp lists them; a test compares all four
// with that table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace whence {

// Stores the weights in the ONNX file or in files next to it. Above 2 GiB they are always in a separate file.
struct ExternalData {
  bool always = false;      // in model.onnx.data
  bool per_tensor = false;  // one file for each weight
  // threshold: weights of at most this many bytes stay in the model file (default 1024). alignment: external weights
  // start at multiples of it (default 4096).
  std::optional<std::uint64_t> threshold = {}, alignment = {};
  bool overwrite = false;  // replaces existing files that hold something else; otherwise an error
};

struct Options {
  // {input: {axis: name of its size}}, as in torch.onnx.export. Axes with the same name have the same size. For
  // archives, a size may also depend on another: "2*batch+1".
  std::map<std::string, std::map<int, std::string>> dynamic_axes = {};
  // Names of the inputs, in order. By default the argument names of forward if they are known (archives); otherwise
  // "x", or "x0", "x1", ... for several inputs.
  std::vector<std::string> input_names = {};

  // ---- exports only ----

  std::vector<std::string> output_names = {};
  int opset = 20;  // 13 to 28; E0101 for any other
  // Whether to use the operators of opset 23 and later (Attention, Swish and others: docs/opsets.md). "fused": all,
  // wherever the model computes the same; "plain": none; empty: the operators that ONNX Runtime 1.32 runs. E0101 for
  // any other text.
  std::string operators = {};
  bool annotate = true;                // readable metadata on every node, as `whence annotate` writes it
  std::string sidecar = {};            // path of a sidecar to write, bound to the ONNX file
  bool optimize = true;                // merge, share and fold nodes
  bool fold = true;                    // fold constants: compute at export what depends only on weights
  bool unsupported_as_domain = false;  // write operators without a converter in their own domain instead of failing
  bool keep_bfloat16 = false;          // even if ONNX Runtime has no bfloat16 kernel on the CPU
  bool weights_as_inputs = false;      // make the weights inputs of the graph and leave them out of the file
  bool keep_initializers_as_inputs = false;  // list the weights as inputs too and keep them in the file
  ExternalData external_data = {};
  // A model file with ONNX functions for your own operators. E0102 if it does not exist, E0203 if it has no functions,
  // E0204 for a function that calls itself, E0302 for a function that needs a newer opset.
  std::string converters = {};
  std::vector<std::string> kept_operators = {};   // "aten::gelu": nodes of whence.aten even with a converter
  std::map<std::string, int> custom_opsets = {};  // {namespace: version}: written as nodes of that domain
  // Modules as ONNX functions: "auto", "types=A,B", "modules=GLOB" or "depth=N". E0101 for any other text, and for
  // names that match no module.
  std::string functions = {};
  std::string report = {};  // path of a Markdown report, which is also written when the export fails

  // ---- live modules only ----

  std::string archive = {};  // path to keep the traced program at, as a TorchScript archive
  bool training = false;     // records the module in its current mode instead of eval mode
  std::string command = {};  // the whence command; by default $WHENCE, else next to this library, else on PATH

  // ---- archives only ----

  std::vector<std::string> dynamic = {};    // dynamic axes as text: "input_ids:0=batch,1=2*seq+1"
  std::vector<std::string> inputs = {};     // example inputs to generate: "input_ids=int64[1,16]<30522"
  std::string inputs_file = {};             // example inputs: a torch-saved tensor, tuple or dict, or an .npz
  std::string default_dtype = {};           // the default dtype of the model's Python code (torch.set_default_dtype)
  std::vector<std::string> libraries = {};  // shared libraries that define operators of the archive (TORCH_LIBRARY)
};

}  // namespace whence
