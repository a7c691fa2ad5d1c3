// Retrace: the fx graph that PyTorch's ONNX exporter converts, for an archive's graph. The exporter decomposes a
// program first, which traces it anew: composite operators become what they call, writing operators become functional
// ones, and nodes are numbered again. Its metadata names those nodes, so whence, which converts the archive's own
// operators, has to know what they would have been called. Source: torch/onnx/_internal/exporter/_core.py
// (_prepare_exported_program_for_export) and ATen's functionalisation (aten/src/ATen/FunctionalTensorWrapper.cpp) of
// PyTorch 2.13.
//
// What becomes of an operator is said in the tables of *_rules.cpp; one without a rule stays. Nothing else depends on
// the result but texts: what it does not know is a name that PyTorch would not have given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/read/exported/part.h"
#include "annotator/read/exported/retrace/fx_call.h"
#include "annotator/read/exported/retrace/fx_graph.h"
#include "annotator/read/exported/retrace/size_arithmetic.h"
#include "schema/flat_map.h"

namespace whence {

class Retrace {
 public:
  // The graph and those that are written in its place (no_grad); bodies of branches and loops have names of their own.
  // `program`: all of the archive's document, where the graph is the whole program's.
  Retrace(const Part& graph, Reading& reading, const Part* program = nullptr);

  std::string text(const Part& node) const;               // of the node that does what the archive's does; "" for none
  const std::string* name(std::string_view value) const;  // of the node that made the archive's value; nullptr: none
  // Inputs that are written to, with the name of the node that made what they hold in the end.
  std::vector<std::pair<std::string_view, std::string>> written() const;

  // ---- for rules ----

  using Arguments = std::vector<std::string>;
  using Keywords = std::vector<std::pair<std::string, std::string>>;

  // A node that calls `target`, e.g. "aten.view.default". Its result is taken to be as the operator's own, unless
  // `dtype` says otherwise.
  std::string emit(std::string target, Arguments positional, Keywords keywords = {}, DType dtype = DType::undefined);
  // A node whose result has a layout of its own.
  std::string emit_of(const Layout& layout, std::string target, Arguments positional, Keywords keywords = {},
                      DType dtype = DType::undefined);
  // Nodes that take the results out of one that has several.
  std::vector<std::string> items(const std::string& node, std::size_t count);

  void check(const std::string& node);  // an assertion, which PyTorch takes out once it has kept what it reads
  void yield(const std::string& node);  // the operator's result
  void yield(const std::vector<std::string>& nodes);  // its results
  void yield_same(std::string_view value);            // it returns this value as it is
  // An operator that returned this value as it is, among others: it is read from the node that took it out.
  void read_from(std::string_view value, const std::string& node);
  // The result is a view: what is written to it is written to `value`.
  void yield_view(std::string_view value, std::string target, Arguments rest);

  TensorFacts facts(std::string_view value) const;  // of the archive's value
  Layout layout(std::string_view value) const;
  std::string sizes_text(std::string_view value) const;
  // What PyTorch computes of symbolic sizes. It asks for a tensor's number of elements once, and once whether it lies
  // in row-major order.
  SizeArithmetic& sizes() { return arithmetic_; }
  TracedSize element_count(std::string_view value);
  bool contiguous(std::string_view value);
  std::string emit_contiguous(std::string_view value);  // a copy in row-major order
  std::string emit_unsafe_view(std::string_view value, const std::vector<TracedSize>& shape);  // of such a copy
  // A size that follows from a shape's -1, unless what is reshaped has it.
  void name_new_size(std::string_view value, std::size_t axis, std::string_view reshaped);
  void name_open_size(const TracedSize& size);                                 // the same, of a shape that is new
  void name_size(std::string_view value, std::size_t axis, TracedSize& size);  // computed on the way
  // 0, 1, ... up to a length, which PyTorch asks for anew.
  std::string emit_arange(const TracedSize& length, DType dtype);

 private:
  // torch's FunctionalTensorWrapper: a value, and how it follows from the storage that it shares with others.
  using AliasId = std::int32_t;
  struct View {
    std::int32_t parent;  // -1: of the storage itself
    std::string target;   // called with what it views before `rest`
    Arguments rest;
    std::string viewed;  // the archive's name of what it views
    const void* maker;   // the archive's node
    int new_sizes;       // that are asked for whenever it is made again
  };
  struct Alias {
    FxId node = -1;
    std::int32_t storage = -1, view = -1, generation = 0;
  };
  struct Update {
    FxId written;
    std::int32_t view;
  };
  struct Storage {
    FxId base = -1;
    std::int32_t generation = 0;
    std::vector<Update> pending;
  };

  // What became of an operator: `main` names it, the last of the nodes from `first` on.
  struct Emitted {
    FxId first = -1, main = -1;
  };

  struct Mutations {
    std::size_t count = 0;                                 // results that are written to inputs
    FlatMap<std::string_view, std::string_view> input_of;  // by the result
  };

  void choose_among_alive();
  void return_results(const Part& graph, const Mutations& mutations);
  Mutations write_as_stated(const Part& signature);
  void assign(std::string_view input, std::string_view value);
  void forget_copies(const Part& signature);
  void replace(const FlatMap<FxId, FxId>& nodes);
  static bool has_symbols(const Part& graph);
  void name_sizes(const Part& inputs);
  void trace_guards(const Part& inputs, const Part& program);
  void trace_expression(std::string_view code);
  std::string_view expression_of(std::string_view value) const;
  void reserve(std::size_t more);
  void trace(const Part& graph);
  void run(const Part& node);
  void run_inline(const Part& node, std::size_t own);
  FxCall read(const Part& node);
  std::string emit_as_given(const FxCall& call);
  void stay(const FxCall& call);
  FxId add(std::string target, Arguments positional, Keywords keywords, DType dtype);
  void view_of(std::string_view value, const std::string& node, std::string target, Arguments rest);
  void describe(FxNode& node, std::string_view value) const;
  std::string size_text(const Part& size) const;
  void trace_storage(std::string_view value);
  void trace_storage(const Layout& layout, DType dtype);
  void trace_write(const FxCall& call);
  void trace_new_sizes(const FxCall& call);
  void ask_size();
  void trace_open_size(const FxCall& call);

  struct Asked {  // what PyTorch keeps of a tensor once it was asked for
    std::optional<TracedSize> count;
    std::optional<bool> contiguous;
  };
  Asked& asked_of(std::string_view value);

  AliasId fresh(FxId node);
  void bind(std::string_view value, AliasId alias) { values_[value] = alias; }
  FxId use(std::string_view value);  // its node, after what was written to its storage has been seen to
  FxId sync(Alias& alias);
  void write_back(const FxCall& call);
  FxId write(const Update& update, FxId base);
  FxId forward(std::int32_t view, FxId base);
  FxId again(const View& view, FxId of);
  std::vector<const View*> path_to(std::int32_t view) const;

  Reading& reading_;
  FxGraph graph_;
  SizeArithmetic arithmetic_{graph_};
  const Part* archive_ = nullptr;  // the graph being traced, with its tables
  bool dynamic_ = false;           // some sizes are symbols
  std::vector<std::string_view> inputs_;
  FlatMap<std::string_view, AliasId> values_;
  FlatMap<std::string_view, FxId> sizes_;        // by sympy's expression: the node that computes it
  std::vector<FxId> asked_;                      // sizes of inputs
  std::unordered_map<AliasId, Asked> asked_of_;  // whose entries stay where they are
  std::vector<Alias> aliases_;
  std::vector<Storage> storages_;
  std::vector<View> views_;
  FlatMap<const void*, Emitted> main_;                // by the archive's node
  std::vector<std::pair<const void*, FxId>> remade_;  // views that were made again, by the archive's node
  // Of the operator being traced.
  const void* maker_ = nullptr;
  const FxCall* call_ = nullptr;
  std::vector<AliasId> made_;
  FxId last_ = -1;
  int new_sizes_ = 0;
  FxId most_nodes_ = 0;  // long chains of views, each written to, would be made again without end
};

}  // namespace whence
