// Annotate ONNX files, whoever exported, optimised or quantised them: every node says which module, which call of it
// and which source line it comes from, and how sure that is.
//
//   const auto report = whence::annotate("model.onnx", "model.annotated.onnx", {.sidecar = "model.whence.json"});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed. Every function
// here writes its output as a whole, or not at all, and throws whence::Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whence/diagnostics.h"
#include "whence/functions.h"
#include "whence/weight_files.h"

namespace whence {

// Nodes by how sure their module is: the promise of each word is in the README.
struct NodeCounts {
  std::int64_t exact = 0, matched = 0, inferred = 0, ancestor = 0, unattributed = 0;

  std::int64_t total() const { return exact + matched + inferred + ancestor + unattributed; }
  std::int64_t covered() const { return exact + matched + inferred; }
};

struct AnnotateOptions {
  // The source of the nodes' places: the sidecar of the same model, or the annotated file that a tool made this one of.
  // With neither, the sidecar beside the file is taken (model.whence.json), or else the entries of the file itself.
  std::string sidecar = {}, from = {};
  std::string weights = {};  // instead of both, what is known of modules is in a checkpoint: safetensors, torch.save's
  std::string value_pairs = {};        // values of the file that are results of the sidecar's operations: matching.md
  std::vector<std::string> keys = {};  // which to write, full or by last segment; empty: all of them
  bool names = true;                   // name nodes after their module
  bool carry = false;                  // also write the names into doc_strings, which many tools leave alone
  // Go on by structure when the parameters are not the sidecar's; then no node is surer than `inferred`.
  bool allow_different_weights = false;
  bool is_made_from_it = false;  // a tool is known to have made the file of `from`: it may change any weight
  std::string functions = {};    // modules as ONNX functions: "auto", "types=A,B", "modules=GLOB", "depth=N"
  std::vector<std::string> minima = {};  // least shares in percent, as validate() has them: "covered=95"
  bool tokens_go = false;        // takes away what `carry` left in the doc_strings of the file before
  bool overwrite = false;  // replaces files of weights that stand where those of the output go and hold something else
  bool copy_data = false;  // files of weights of its own for an output in the model's folder, which could share them
};

struct AnnotateReport {
  NodeCounts nodes;  // nodes of bodies included, counted by the keys that they have now
  std::int64_t renamed = 0;
  bool changed = false;  // false: the file said all of this already
  struct Parameters {
    std::int64_t known = 0;  // the program's parameters; then how many the file holds: each is counted once
    std::int64_t by_bytes = 0, by_name = 0, by_sketch = 0, by_shape = 0;
  } parameters;  // for matched files; all zero for others
  std::optional<FunctionsReport> functions;
  std::vector<std::string> shortfalls;  // minima that were not reached: "covered is 40 %, not 95 %"
  Diagnostics notes;
};

// `output` may be the same file. Metadata that is there already stays: a key is never written twice. Errors: usage for
// an unknown key; sidecar_mismatch when the file comes from another program; wrong_kind when `from` is not annotated.
AnnotateReport annotate(const std::string& model, const std::string& output, const AnnotateOptions& options = {});

struct StripReport {
  std::int64_t nodes = 0, stripped = 0;
  bool changed = false;  // false: whence had not annotated the file
  Diagnostics notes;
};

// Takes back what annotate() wrote: the file as it was before, byte for byte. Calls of functions that whence made are
// written out first.
StripReport strip(const std::string& model, const std::string& output, const WeightFiles& weights = {});

}  // namespace whence
