// Reference: the graph that a foreign file is compared with, a Structure whose nodes are linked to the recorded
// operations they stand for. Made from a program (its sidecar is enough) or from an annotated ONNX file.
//
// A reference made from a program holds several forms of the computation at once, each as whence could export it:
// converted or simplified, with normalizations and activations spelled out or as one operator. Values of the program
// are the same value in all forms, so a foreign node may correspond to the form nearest to it.
//
// A *unit* is the smallest thing a node can be attributed to: a recorded operation, or a node of the annotated file.
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
#include "annotator/metadata/fx_names.h"
#include "annotator/metadata/way.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "schema/dtype.h"
#include "schema/program.h"

namespace whence::match {

struct ReferenceUnit {
  ScopeIndex scope;                                           // none: not known
  std::string name;                                           // as an exporter would call it: "linear_3"
  origin::Confidence confidence = origin::Confidence::exact;  // how sure the reference itself is of the scope
};

struct ReferenceParameter {
  std::vector<std::string> names;  // canonical first
  std::vector<std::int64_t> dims;
  DType dtype = DType::undefined;
  TensorDigests digests;
  std::vector<std::int8_t> sketch;     // schema/tensor_sketch.h; empty where it is not known
  bool sketched_without_ones = false;  // true: `dims` without leading ones are the sketch's
  std::vector<UnitIndex> units;        // that read it
  bool weight = true;                  // false: a size, an axis or one number, which says nothing of the model
};

// A value of the foreign file that is, by its numbers, the result of an operation.
struct EqualValue {
  std::string name;  // in the file
  UnitIndex unit;
  ValueId value;  // the program's number of it
};

// Makes scopes of ways that nodes state and of qualified names, parents first. Ways come before names: a name alone
// does not say in which call of the modules around it the module was called.
class ScopeTree {
 public:
  explicit ScopeTree(origin::CallTree& scopes) : scopes_(scopes) {}
  ScopeIndex of(const std::vector<metadata::CalledModule>& way);
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
  std::unordered_map<ValueId, ReferenceValue> value_of_program;  // values that some form has
  ReferenceStructure structure;
  IndexedVector<ReferenceNode, std::vector<UnitIndex>> units_of_node;  // by node of `structure`; each ascending
  // Nodes that serve several operations, such as a size that many ask for: a foreign file may have one for each.
  std::unordered_set<ReferenceNode> shared_nodes;
  IndexedVector<UnitIndex, ReferenceUnit> units;
  origin::CallTree scopes;
  IndexedVector<ParameterIndex, ReferenceParameter> parameters;
  IndexedVector<UnitIndex, std::vector<ReferenceNode>> nodes_of_unit;  // heavy nodes only
  IndexedVector<UnitIndex, std::vector<ParameterIndex>> parameters_of_unit;
  IndexedVector<UnitIndex, std::vector<std::uint16_t>> classes_of_unit;  // operators that some form uses for the unit

  // The operators of the units that stand directly in a scope, which is one call of a module; not those of the scopes
  // within.
  IndexedVector<ScopeIndex, std::vector<std::uint16_t>> classes_of_scope;

  // Ascending. Units that no form of the reference writes, such as a conversion to the type that the value has already.
  std::vector<UnitIndex> vanished_units;

  bool same_units(ReferenceNode a, ReferenceNode b) const { return units_of_node[a] == units_of_node[b]; }

  // For the time after matching: drops all but what describes a match, units, scopes and values_keep_names.
  void keep_units_and_scopes();

  void index_units();  // fills nodes_of_unit, parameters_of_unit, classes_of_unit, classes_of_scope, vanished_units

  std::vector<std::shared_ptr<const void>> owners;  // keep alive the text that `structure` points to
  std::shared_ptr<const MappedFile> file;           // likewise, when the reference is a file
};

// `opset`: the foreign file's. Operators without a converter become nodes of their own. Throws what export throws for
// programs that cannot be exported at all.
Reference make_reference(const Program& program, int opset);
// The same with the names of the program's operations, which take a while to make.
Reference make_reference(const Program& program, const metadata::FxNames& names, int opset);
// Reads the reference from an annotated file; PyTorch's keys are enough. `annotated` must outlive the result.
Reference make_reference(const onnx_file::OnnxSummary& annotated);
// Reads the reference from the foreign file's own names, when there is nothing else: scopes and parameters, no
// structure.
Reference make_reference_of_names(const onnx_file::OnnxSummary& model);
// Reads the reference from the parameters that a training program saved, each with digests and sketch: modules by their
// qualified names, no structure. Modules that only the file's names mention are added where they fit in.
Reference make_reference_of_weights(const onnx_file::OnnxSummary& model, const std::vector<Parameter>& parameters);

// Returns the module that a node's metadata names; nullopt when it names none.
std::optional<std::string> module_of(const onnx_file::OnnxProperties& metadata);

// Returns how sure a file is of the module that this node's metadata names. PyTorch's optimiser keeps the keys of one
// of the nodes that it fuses, so its word alone is never exact.
origin::Confidence confidence_in(const onnx_file::OnnxNode& node);

}  // namespace whence::match
