// Modules of an annotated ONNX file as ONNX functions, one for each unique block, the graph back again, and one module
// as a model of its own.
//
//   whence::make_functions("bert.annotated.onnx", "bert.functions.onnx", {.types = {"BertLayer"}});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed. Every function
// here writes its output as a whole, or not at all, and throws whence::Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whence/diagnostics.h"
#include "whence/weight_files.h"

namespace whence {

// The modules that become functions. With nothing set: those that save the most nodes by being repeated.
struct FunctionChoice {
  std::vector<std::string> modules = {};  // globs over qualified names: "encoder.layer.*", "**.attention"
  std::vector<std::string> types = {};    // classes, full or by their last part: "BertLayer"
  std::optional<int> depth = {};          // all modules down to so many calls below the root

  bool automatic() const { return modules.empty() && types.empty() && !depth; }
};

struct FunctionsReport {
  struct Function {
    std::string name;  // "BertLayer"; of another block of that class "BertLayer_encoder_layer_1"
    std::int64_t calls = 0, nodes = 0;
    std::vector<std::string> modules;  // in the order of the file
  };
  struct Refused {
    std::string module, reason;
  };
  std::vector<Function> functions;  // outermost last
  std::vector<Refused> refused;     // modules that were chosen but are not a single part of the graph
  std::int64_t nodes_before = 0;    // nodes of the graph, constants left out
  std::int64_t nodes_after = 0;     // nodes of graph and functions
  Diagnostics notes = {};
};

// `output` may be the same file. Errors: usage when nothing is chosen, or a choice matches nothing (with the nearest
// names); unsupported_feature when all that was chosen is refused; those of a file that cannot be read or written.
FunctionsReport make_functions(const std::string& model, const std::string& output, const FunctionChoice& choice = {},
                               const WeightFiles& weights = {});

struct InlineReport {
  std::int64_t calls = 0;      // outermost calls written out
  std::int64_t functions = 0;  // that are gone
  std::int64_t nodes = 0;      // nodes of the outermost graph afterwards
  Diagnostics notes = {};
};

// Writes out the calls of functions that make_functions() made; `all`: of every function. Nodes get back their
// metadata, and their names where those were made after their modules. Errors: corrupt_file for calls that do not fit
// their function, unsupported_feature for a function of another opset version than the model.
InlineReport inline_functions(const std::string& model, const std::string& output, bool all = false,
                              const WeightFiles& weights = {});

struct ExtractOptions {
  std::string module;            // qualified name; a container that is never called stands for what it holds
  std::optional<int> call = {};  // the first one that the file has by default
  bool partial = false;          // also when it is not known whether more of the file belongs to the module
  // Several modules in the place of the one, names or globs: "layers.[0-1]". One model of them all, and of the nodes
  // between them.
  std::vector<std::string> modules = {};
};

struct ExtractReport {
  int call = 0;
  std::vector<int> calls;                    // call numbers of the module in the file, ascending
  std::vector<std::string> inputs, outputs;  // with their types: "hidden float32[2,16,128]"
  std::int64_t nodes = 0, weights = 0;
  std::int64_t taken_along = 0;  // nodes that are not the module's own: known sizes, or what lies between its nodes
  Diagnostics notes = {};
};

// One call of one module as a model of its own: what it reads from outside are the inputs, what is read of it the
// outputs. Errors: unknown_node for a module or call that the file does not have (with the nearest names);
// unsupported_feature when its nodes are not one part of the graph, when the type of an input is not known, and, unless
// options.partial, when other nodes may belong to it.
ExtractReport extract_module(const std::string& model, const std::string& output, const ExtractOptions& options,
                             const WeightFiles& weights = {});

}  // namespace whence
