// Options of a recording and an export, the same for a live module (record.h), for an archive (export.h), for
// `whence export` and, under torch.onnx.export's names, for Python. tools/whence/export_options.cpp is the table of
// them all; a test holds the four against it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace whence {

// The place of the weights: in the ONNX file, or in one beside it (always so above 2 GiB).
struct ExternalData {
  bool always = false;      // in model.onnx.data
  bool per_tensor = false;  // in a file for each of the weights
  // Weights of no more bytes stay in the model file; where the others start. By default 1024 and 4096.
  std::optional<std::uint64_t> threshold = {}, alignment = {};
  bool overwrite = false;  // replaces what stands there, also when it holds something else; an error without
};

struct Options {
  // {input: {axis: size's name}}, as torch.onnx.export has them. Axes of one name have one size. Of an archive also a
  // size that follows from another: "2*batch+1".
  std::map<std::string, std::map<int, std::string>> dynamic_axes = {};
  // Names of the inputs, in order. By default those of forward's arguments where they are known (archives), else "x",
  // or "x0", "x1", ... when there are several.
  std::vector<std::string> input_names = {};

  // ---- of an export alone ----

  std::vector<std::string> output_names = {};
  int opset = 20;  // 13 to 28; E0101 for any other
  // "fused": all operators that came with opset 23 and later (Attention, Swish and others: docs/opsets.md) where the
  // model holds what they stand for; "plain": none of them. Empty: those that ONNX Runtime 1.32 runs. E0101 for others.
  std::string operators = {};
  bool annotate = true;                // readable metadata on every node, as `whence annotate` writes it
  std::string sidecar = {};            // path of a sidecar to write, bound to the ONNX file
  bool optimize = true;                // nodes are merged, shared and folded
  bool fold = true;                    // computes with weights alone while exporting
  bool unsupported_as_domain = false;  // operators without a converter in a domain of their own instead of an error
  bool keep_bfloat16 = false;          // also where ONNX Runtime has no kernel for it on the CPU
  bool weights_as_inputs = false;      // the weights are inputs of the graph, and left out of the file
  bool keep_initializers_as_inputs = false;  // the weights are inputs of the graph, and in the file
  ExternalData external_data = {};
  // A model file with ONNX functions for operators of your own. E0102 when it is not there, E0203 when it holds none,
  // E0204 for a function that calls itself, E0302 for one that needs a newer opset.
  std::string converters = {};
  std::vector<std::string> kept_operators = {};   // "aten::gelu": nodes of the domain whence.aten, converter or not
  std::map<std::string, int> custom_opsets = {};  // {domain: version}: operators that pass as nodes of that domain
  // Modules as ONNX functions: "auto", "types=A,B", "modules=GLOB" or "depth=N"; E0101 for any other text, and for
  // names that match no module.
  std::string functions = {};
  std::string report = {};  // a Markdown report, also of an export that fails

  // ---- of a live module alone ----

  std::string archive = {};  // keeps the traced program as a TorchScript archive, which Python and `whence export` read
  bool training = false;     // records the module in the mode that it is in, instead of eval mode
  std::string command = {};  // the whence command; by default $WHENCE, else the one beside this library, else on PATH

  // ---- of an archive alone ----

  std::vector<std::string> dynamic = {};    // dynamic axes as one text each: "input_ids:0=batch,1=2*seq+1"
  std::vector<std::string> inputs = {};     // example inputs to make: "input_ids=int64[1,16]<30522"
  std::string inputs_file = {};             // example inputs: a torch-saved tensor, tuple or dict, or an .npz
  std::string default_dtype = {};           // the argument of torch.set_default_dtype where the model was made
  std::vector<std::string> libraries = {};  // shared libraries that define operators of the archive (TORCH_LIBRARY)
};

}  // namespace whence
