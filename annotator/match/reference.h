// Reference: the graph that a foreign file is compared with, a Structure whose nodes have links to the recorded
// operations that they represent. Made from a program (its sidecar is enough) or from an annotated ONNX file.
//
// A reference made from a program has several forms of the computation, each as whence could export it: converted or
// simplified, with normalizations and activations decomposed or as one operator. A value of the program is the same
// value in all forms, so a foreign node may correspond to the form nearest to it.
//
// A *unit* is the smallest thing that a node can be attributed to: a recorded operation, or a node of the annotated
// file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/match/structure.h"
#include "annotator/metadata/call_path.h"
#include "annotator/metadata/fx_names.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "schema/dtype.h"
#include "schema/program.h"

namespace whence::match {

struct ReferenceUnit {
  ScopeIndex scope;                                           // none: unknown
  std::string name;                                           // as an exporter would call it: "linear_3"
  origin::Confidence confidence = origin::Confidence::exact;  // of the reference in the scope
};

struct ReferenceParameter {
  std::vector<std::string> names;  // canonical first
  std::vector<std::int64_t> dims;
  DType dtype = DType::undefined;
  TensorDigests digests;
  std::vector<std::int8_t> sketch;     // schema/tensor_sketch.h; empty if unknown
  bool sketched_without_ones = false;  // the sketch is of `dims` without leading ones
  std::vector<UnitIndex> units;        // units that read it
  bool weight = true;                  // false: a size, an axis or one number, which any model may have
};

// A value of the foreign file that has the numbers of an operation's result.
struct EqualValue {
  std::string name;  // in the file
  UnitIndex unit;
  ValueId value;  // the program's number of it
};

// Makes scopes from the calls that nodes state and from qualified names, parents first. Stated calls come before names,
// which do not contain the calls of the enclosing modules.
class ScopeTree {
 public:
  explicit ScopeTree(origin::CallTree& scopes) : scopes_(scopes) {}
  ScopeIndex of(const std::vector<metadata::CalledModule>& calls);
  ScopeIndex of(const std::string& path, std::int32_t call);

 private:
  ScopeIndex add(const std::string& path, std::int32_t call, ScopeIndex parent);

  origin::CallTree& scopes_;
  std::map<std::pair<std::string, std::int32_t>, ScopeIndex> known_;
};

struct Reference {
  bool values_keep_names = false;      // the reference is the file that the foreign file was made from
  bool of_weights = false;             // the reference is a checkpoint: a unit is a module that has parameters
  std::optional<std::string> program;  // digest of the program; stamps may refer to it
  std::vector<EqualValue> equal_values;
  std::unordered_map<ValueId, ReferenceValue> value_of_program;  // values that a form has
  ReferenceStructure structure;
  IndexedVector<ReferenceNode, std::vector<UnitIndex>> units_of_node;  // by node of `structure`; each ascending
  // Nodes that serve several operations, such as a size with many readers: a foreign file may have one node for each.
  std::unordered_set<ReferenceNode> shared_nodes;
  IndexedVector<UnitIndex, ReferenceUnit> units;
  origin::CallTree scopes;
  IndexedVector<ParameterIndex, ReferenceParameter> parameters;
  IndexedVector<UnitIndex, std::vector<ReferenceNode>> nodes_of_unit;  // heavy nodes only
  IndexedVector<UnitIndex, std::vector<ParameterIndex>> parameters_of_unit;
  IndexedVector<UnitIndex, std::vector<std::uint16_t>> classes_of_unit;  // operators that a form uses for the unit

  // The operators of the units directly in a scope, which is one call of a module, without the scopes inside.
  IndexedVector<ScopeIndex, std::vector<std::uint16_t>> classes_of_scope;

  // Units that no form of the reference contains, such as a conversion to the type that the value has already;
  // ascending.
  std::vector<UnitIndex> vanished_units;

  bool same_units(ReferenceNode a, ReferenceNode b) const { return units_of_node[a] == units_of_node[b]; }

  // Drops everything but units, scopes and values_keep_names, which are enough to describe a match.
  void keep_units_and_scopes();

  void index_units();  // fills nodes_of_unit, parameters_of_unit, classes_of_unit, classes_of_scope, vanished_units

  std::vector<std::shared_ptr<const void>> owners;  // keep alive the text that `structure` refers to
  std::shared_ptr<const MappedFile> file;           // keeps it alive as well, if the reference is a file
};

// `opset`: the foreign file's. Operators without a converter become nodes of their own. Throws the errors
// of export for programs that cannot be exported at all.
Reference make_reference(const Program& program, int opset);
// `names`: the names of the program's operations, which take time to build.
Reference make_reference(const Program& program, const metadata::FxNames& names, int opset);
// Makes the reference from an annotated file; PyTorch's keys are enough. `annotated` must outlive the result.
Reference make_reference(const onnx_file::OnnxSummary& annotated);
// Makes the reference from the foreign file's own names, if there is nothing else: scopes and parameters, no structure.
Reference make_reference_of_names(const onnx_file::OnnxSummary& model);
// Makes the reference from the parameters of a checkpoint, each with digests and sketch: modules by their qualified
// names, no structure. Adds modules that only the file's names mention, if they are inside or next to known ones.
Reference make_reference_of_weights(const onnx_file::OnnxSummary& model, const std::vector<Parameter>& parameters);

// Returns the module that a node's metadata names; nullopt if it names none.
std::optional<std::string> module_of(const onnx_file::OnnxNode& node);

// Returns the confidence in the module that a node's metadata names. PyTorch's optimiser keeps the keys of one of the
// nodes that it fuses, so its keys are never exact.
origin::Confidence confidence_in(const onnx_file::OnnxNode& node);

}  // namespace whence::match
