// Turns modules of an annotated ONNX file into ONNX functions, one for each unique block, inlines them again, and
// extracts a module as a model of its own.
//
//   whence::make_functions("bert.annotated.onnx", "bert.functions.onnx", {.types = {"BertLayer"}});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed. Each function
// either writes its complete output or throws whence::Error and writes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whence/diagnostics.h"
#include "whence/weight_files.h"

namespace whence {

// Selects the modules that become functions. By default the repeated modules that save the most nodes.
struct FunctionChoice {
  std::vector<std::string> modules = {};  // globs over qualified names: "encoder.layer.*", "**.attention"
  std::vector<std::string> types = {};    // classes, full name or last segment: "BertLayer"
  std::optional<int> depth = {};          // all modules down to this number of calls below the root

  bool automatic() const { return modules.empty() && types.empty() && !depth; }
};

struct FunctionsReport {
  struct Function {
    std::string name;  // "BertLayer", or "BertLayer_encoder_layer_1" for a different block of the same class
    std::int64_t calls = 0, nodes = 0;
    std::vector<std::string> modules;  // in file order
  };
  struct Refused {
    std::string module, reason;
  };
  std::vector<Function> functions;  // outermost last
  std::vector<Refused> refused;     // selected modules whose nodes do not form one part of the graph
  std::int64_t nodes_before = 0;    // nodes of the graph, without constants
  std::int64_t nodes_after = 0;     // nodes of the graph and the functions
  Diagnostics notes = {};
};

// `output` may be the same file. Errors: usage when nothing is selected or a selector matches nothing (with the nearest
// names); unsupported_feature when every selected module is refused; errors of reading or writing a file.
FunctionsReport make_functions(const std::string& model, const std::string& output, const FunctionChoice& choice = {},
                               const WeightFiles& weights = {});

struct InlineReport {
  std::int64_t calls = 0;      // outermost calls that were inlined
  std::int64_t functions = 0;  // functions that were removed
  std::int64_t nodes = 0;      // nodes of the main graph afterwards
  Diagnostics notes = {};
};

// Inlines the calls of functions that make_functions() made, or of every function if `all`. Restores the nodes'
// metadata, and the names that were derived from modules. Errors: corrupt_file for a call that does not fit its
// function; unsupported_feature for a function whose opset version differs from the model's.
InlineReport inline_functions(const std::string& model, const std::string& output, bool all = false,
                              const WeightFiles& weights = {});

struct ExtractOptions {
  std::string module;            // qualified name; a container that is never called means the modules in it
  std::optional<int> call = {};  // by default the first call in the file
  bool partial = false;          // extract even if further nodes may belong to the module
  // Instead of `module`: names or globs ("layers.[0-1]") of modules that form one model with the nodes between them.
  std::vector<std::string> modules = {};
};

struct ExtractReport {
  int call = 0;
  std::vector<int> calls;                    // call numbers of the module in the file, ascending
  std::vector<std::string> inputs, outputs;  // with their types: "hidden float32[2,16,128]"
  std::int64_t nodes = 0, weights = 0;
  std::int64_t taken_along = 0;  // nodes of other modules: they compute known sizes, or are between the module's nodes
  Diagnostics notes = {};
};

// Extracts one call of a module as a model. Values that the module reads from outside become inputs; values that are
// read outside become outputs. Errors: unknown_node for a module or call that the file does not have (with the nearest
// names); unsupported_feature when the nodes do not form one part of the graph, when the type of an input is unknown,
// and, unless options.partial, when other nodes may belong to the module.
ExtractReport extract_module(const std::string& model, const std::string& output, const ExtractOptions& options,
                             const WeightFiles& weights = {});

}  // namespace whence
