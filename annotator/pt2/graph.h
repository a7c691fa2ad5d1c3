// Reads the graph of an exported program: values, operations, and graphs nested in operations.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/pt2/archive_texts.h"
#include "annotator/pt2/modules.h"
#include "annotator/pt2/part.h"
#include "annotator/pt2/region_calls.h"
#include "annotator/pt2/strides.h"
#include "schema/flat_map.h"
#include "schema/program.h"
#include "schema/recorder_api.h"
#include "schema/size_text.h"

namespace whence::pt2 {

class ExportedGraph {
 public:
  ExportedGraph(Program& program, ExportedModules& modules, Reading& reading)
      : program_(program), modules_(modules), reading_(reading) {}

  // Reads the dynamic sizes and their bounds.
  void read_symbols(const Part& range_constraints);
  // Marks the sizes of an input, a tensor or a number, as chosen by the caller; all other sizes depend on data.
  void choose_sizes(const Part& graph, const std::string& name);

  // Adds a value with the type that `graph` states for `name`.
  ValueId declare(const Part& graph, const std::string& name, ValueSource source, std::int32_t index);
  ValueId value_of(const std::string& name) const;  // throws Error(corrupt_file) for an undefined name

  // Reads the operations of `graph` into `block`, in order; with `texts`, also each fx node as one line.
  void read_program(const Part& graph, bool texts, Block& block) {
    texts_ = texts;
    read_nodes(graph, block);
    place_tensors(program_, std::cref(places_));
  }
  Argument argument(const Part& argument);
  SizeNames size_names() {
    return [this](const std::string& name) { return std::optional(Size::symbol(named_symbol(name))); };
  }

 private:
  using Names = FlatMap<std::string, ValueId>;

  void read_nodes(const Part& graph, Block& block);
  void read_node(const Part& graph, const Part& node, Block& block);
  // Sets the sizes of a view's result to those that the node itself states; the recorded ones may differ.
  void use_stated_sizes(const Node& node);
  void require_arguments(const Node& node) const;
  void require_tensors(const Node& node) const;
  void set_target(const std::string& target, Node& node);
  void set_symbolic_target(std::string_view function, Node& node);
  void read_arguments(const Part& inputs, Node& node);
  void fill_defaults(Node& node) const;
  void read_outputs(const Part& graph, const Part& outputs, Node& node);
  Origin origin_of(const Part& node);
  void place(const Part& node, Origin& origin);  // sets scope, stack and basis

  // Operators that take graphs.
  bool read_higher_order(const std::string& name, const Part& graph, const Part& node, Block& block);
  // `before`: the number of operands before those of the graph
  void read_call(const std::string& name, std::size_t before, const Part& node, Block& block);
  void inline_region(const Part& identifier_operand, const Part& node, const Origin& call,
                     const std::vector<Argument>& given, Block& block);
  RegionCall region_call(const std::string& identifier, const Part& metadata, const Origin& call,
                         const std::vector<Argument>& operands);
  OperandNames parameter_names(const Argument& operand) const;
  void inline_graph(const Part& inner, const std::vector<Argument>& operands, const Part& outputs, Block& block);
  void read_cond(const Part& graph, const Part& node, Block& block);
  void read_while_loop(const Part& graph, const Part& node, Block& block);
  // `carries` is false for a map.
  void read_scan(bool carries, const Part& graph, const Part& node, Block& block);
  // functionalized.cpp
  void read_auto_functionalized(const Part& graph, const Part& node, Block& block);
  void read_functional_arguments(const Part& inputs, Node& node);
  void read_functional_results(const Part& graph, const Part& outputs, Node& node);
  // Reads the operations of a graph with these arguments into `block` and returns its results.
  std::vector<Argument> read_body(const Part& inner, const std::vector<Argument>& arguments, Block& block);
  void append(const Part& operand, std::vector<Argument>& to);  // appends an operand, or the operands of a list
  ValueId iteration();
  Argument length_of(const Argument& scanned, const Origin& origin, Block& block);

  // During its lifetime, operations belong to a graph body; with `region`, to the graph of that region.
  class Body {
   public:
    Body(ExportedGraph& graph, ScopeId scope) : Body(graph, scope, graph.region_) {}
    Body(ExportedGraph& graph, ScopeId scope, const RegionCall* region)
        : graph_(graph), scope_(std::exchange(graph.scope_, scope)), region_(std::exchange(graph.region_, region)) {}
    ~Body() { graph_.scope_ = scope_, graph_.region_ = region_; }
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

   private:
    ExportedGraph& graph_;
    ScopeId scope_;
    const RegionCall* region_;
  };
  // Assigns operations of unknown module to the call of nodes that were made from the same earlier node. `read`: the
  // nodes of the archive's graph, and the index of each in `block`.
  void place_by_sources(const std::vector<std::pair<Part, std::size_t>>& read, Block& block) const;
  // Assigns an operation of unknown module, in the known module around it, to the module whose parameters it reads.
  void place_by_parameters(Node& node) const;

  void bind(const std::string& name, ValueId value) { names_[name] = value; }
  Type type_of(const Part& graph, const std::string& name);
  void require_sane(const std::string& name, const Type& type) const;  // throws Error(corrupt_file)
  Dim dim_of(const Part& size);
  // Parses a size as the archive writes it, in the symbols that it names.
  std::optional<Size> size(std::string_view text);
  SymbolId symbol(const Size& size, std::int64_t example);  // none_id for an unknown size
  SymbolId named_symbol(const std::string& name);
  [[noreturn]] void unsupported(const std::string& what, const std::string& remedy) const;

  Program& program_;
  ExportedModules& modules_;
  Reading& reading_;
  Names names_;
  FlatMap<std::string, SymbolId> symbols_;  // indexed by the archive's names
  std::map<Size, SymbolId> derived_;
  ScopeId scope_ = root_scope;          // scope of the enclosing operation, for nodes without a module stack
  const RegionCall* region_ = nullptr;  // the call of a region whose graph is being read
  std::size_t region_calls_ = 0;
  // The module stack of the operator whose graph is being read. A pass that captures the graph again copies it to the
  // nodes, so it does not show the module of a node. Empty for a context, whose nodes keep their stacks.
  std::string_view call_stack_;
  struct FirstCall {
    std::string module;  // as stated
    std::vector<OperandNames> operands;
  };
  std::map<std::string, FirstCall> first_calls_;  // of each region
  std::int32_t next_op_ = 0;
  ArchivePlaces places_{program_};
  bool texts_ = true;
  std::string text_;  // text of the node being read
};

}  // namespace whence::pt2
