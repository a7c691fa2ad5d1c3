// What users of local functions need: modules of an annotated ONNX file as functions, one for each unique block, and
// the graph back again. No header of onnx is needed here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "schema/result.h"

namespace whence {

// Which modules become functions. With nothing set: those that save the most nodes by being repeated.
struct OutlineOptions {
  std::vector<std::string> modules;  // globs over qualified names (view/path_glob.h)
  std::vector<std::string> types;    // classes, full or by their last part: "BertLayer"
  std::optional<int> depth;          // all modules down to so many calls below the root

  bool automatic() const { return modules.empty() && types.empty() && !depth; }
};

struct OutlineReport {
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
  std::int64_t nodes_before = 0;    // of the graph, constants left out
  std::int64_t nodes_after = 0;     // of graph and functions
};

// Errors: those of reading; usage when nothing is chosen, or a choice matches nothing (with the nearest names);
// unsupported_feature when all that was chosen is refused; internal when writing the calls out again would not give the
// graph of `input`: nothing is written then.
Result<OutlineReport> outline_file(const ModelSource& input, const ModelOutput& output, const OutlineOptions& options);

struct InlineReport {
  std::int64_t calls = 0;      // outermost calls written out
  std::int64_t functions = 0;  // that are gone
  std::int64_t nodes = 0;      // of the outermost graph afterwards
};

// Writes out the calls of functions that outline_file made; `all`: of every function. Nodes get back their metadata,
// and their names where those were made after their modules. Errors: those of reading; corrupt_file for calls that do
// not fit their function, unsupported_feature for a function of another opset version than the model.
Result<InlineReport> inline_file(const ModelSource& input, const ModelOutput& output, bool all);

struct ExtractOptions {
  std::string module;       // qualified name; a container that is never called stands for what it holds
  std::optional<int> call;  // the first one that the file has by default
  bool partial = false;     // also when it is not known whether more of the file belongs to the module
};

struct ExtractReport {
  int call = 0;
  std::vector<int> calls;  // of the module in the file, ascending

  std::vector<std::string> inputs, outputs;  // with their types: "hidden float32[2,16,128]"
  std::int64_t nodes = 0, weights = 0;
  std::int64_t taken_along = 0;  // nodes that are not the module's own: known sizes, or what lies between its nodes
};

// One call of one module as a model of its own: what it reads from outside are the inputs, what is read of it the
// outputs. Errors: those of reading; unknown_node for a module or call that the file does not have (with the nearest
// names); unsupported_feature when its nodes are not one part of the graph, when the type of an input is not known,
// and, unless options.partial, when other nodes may belong to it (unclear_parts.h).
Result<ExtractReport> extract_file(const ModelSource& input, const ModelOutput& output, const ExtractOptions& options);

}  // namespace whence
