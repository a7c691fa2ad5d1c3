// Annotates ONNX files from any exporter, optimiser or quantiser: each node gets the module, the call of that module
// and the source line that it comes from, with a confidence.
//
//   const auto report = whence::annotate("model.onnx", "model.annotated.onnx", {.sidecar = "model.whence.json"});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed. Each function
// either writes its complete output or throws whence::Error and writes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whence/diagnostics.h"
#include "whence/functions.h"
#include "whence/weight_files.h"

namespace whence {

// Counts nodes by the confidence of their module. The README defines the five words.
struct NodeCounts {
  std::int64_t exact = 0, matched = 0, inferred = 0, ancestor = 0, unattributed = 0;

  std::int64_t total() const { return exact + matched + inferred + ancestor + unattributed; }
  std::int64_t covered() const { return exact + matched + inferred; }
};

struct AnnotateOptions {
  // The source of the origins: the sidecar of the same model, or the annotated file from which a tool made this one.
  // By default the sidecar next to the file (model.whence.json), or else the file's own metadata.
  std::string sidecar = {}, from = {};
  std::string weights = {};  // a checkpoint (safetensors, torch.save) as the source, instead of `sidecar` and `from`
  std::string value_pairs = {};        // pairs of file values and recorded results (docs/matching.md)
  std::vector<std::string> keys = {};  // metadata keys to write, full or last segment; empty: all
  bool names = true;                   // name nodes after their module
  bool carry = false;                  // also write the names into doc_strings, which many tools keep
  // Match by structure if the file's parameters differ from the sidecar's; no confidence is then above `inferred`.
  bool allow_different_weights = false;
  bool is_made_from_it = false;          // a tool made the file out of `from`, and may have changed any weight
  std::string functions = {};            // modules as ONNX functions: "auto", "types=A,B", "modules=GLOB", "depth=N"
  std::vector<std::string> minima = {};  // minimum shares in percent, as for validate(): "covered=95"
  bool tokens_go = false;                // removes the tokens that `carry` wrote into the input's doc_strings
  bool overwrite = false;                // replaces existing weight files even if they hold something else
  bool copy_data = false;  // gives an output in the model's folder its own weight files instead of sharing the model's
};

struct AnnotateReport {
  NodeCounts nodes;  // by the keys in the output; includes nodes of bodies
  std::int64_t renamed = 0;
  bool changed = false;  // false if the file already held the same annotations
  struct Parameters {
    std::int64_t known = 0;  // parameters of the program
    // Parameters that were found in the file, each counted once.
    std::int64_t by_bytes = 0, by_name = 0, by_sketch = 0, by_shape = 0;
  } parameters;  // all zero unless the file was matched
  std::optional<FunctionsReport> functions;
  std::vector<std::string> shortfalls;  // missed minima: "covered is 40 %, not 95 %"
  Diagnostics notes;
};

// `output` may be the same file. Existing metadata stays, and no key is written twice. Errors: usage for an unknown
// key; sidecar_mismatch when the file comes from another program; wrong_kind when `from` is not annotated.
AnnotateReport annotate(const std::string& model, const std::string& output, const AnnotateOptions& options = {});

struct StripReport {
  std::int64_t nodes = 0, stripped = 0;
  bool changed = false;  // false if whence had not annotated the file
  Diagnostics notes;
};

// Removes what annotate() wrote and restores the original file, byte for byte. First inlines the functions that whence
// made.
StripReport strip(const std::string& model, const std::string& output, const WeightFiles& weights = {});

}  // namespace whence
