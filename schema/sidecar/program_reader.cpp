// Reads the tables of a sidecar into a Program. Checks all references, so that users of the Program can follow every
// index without a check.
#include "schema/sidecar/program_reader.h"

#include "schema/element_count.h"
#include "schema/files/files.h"
#include "schema/parse_number.h"
#include "schema/program_walk.h"
#include "schema/sidecar/base64.h"
#include "schema/size_text.h"

namespace whence {
namespace {

constexpr int kDeepestBlocks = 256;  // limit on nested control flow

class ProgramReader {
 public:
  ProgramReader(JsonValue document, const SidecarText& text) : document_(document), text_(text) {}

  // Reads each table after the tables that it refers to, or after their numbers of rows.
  Program read() {
    value_count_ = rows_of(sidecar_form::values);
    operation_count_ = rows_of(sidecar_form::operations);
    read_symbols();
    read_constraints();
    read_parameters();
    read_modules();
    read_scopes();
    read_stacks();
    read_signature();
    read_stated_signature();
    read_bases();
    read_constants();
    read_values();
    read_operations();
    read_places();
    return std::move(program_);
  }

 private:
  TableReader table(const sidecar_form::Table& form) const { return {text_, document_, form}; }
  std::size_t rows_of(const sidecar_form::Table& form) const { return table(form).size(); }

  void read_symbols() {
    std::vector<std::pair<SymbolId, Cell>> sizes;
    program_.symbols.items() = table(sidecar_form::symbols).read<Symbol>([&](RowReader& row) {
      const auto bound = [](const Cell& cell) {
        return cell.is_null() ? std::nullopt : std::optional(cell.integer(INT64_MIN, INT64_MAX));
      };
      Symbol symbol;
      symbol.name = row.next().text();
      symbol.example = row.next().integer(INT64_MIN, INT64_MAX);
      symbol.min = bound(row.next());
      symbol.max = bound(row.next());
      const Cell kind = row.next(), size = row.next();
      symbol.kind = kind.is_null() ? SymbolKind::unknown : kind.one_of<SymbolKind>(sidecar_form::symbol_kinds);
      if (symbol.kind == SymbolKind::derived) sizes.emplace_back(SymbolId(row.number()), size);
      return symbol;
    });
    for (const auto& [id, cell] : sizes) {
      const auto size = read_size(cell.word(), [&](const std::string& name) { return symbol_called(name); });
      if (!size || !size->is_known())
        cell.corrupt("expected a size of symbols that do not follow from others: 2*s0 + 1");
      program_.symbols[id].size = *size;
    }
  }

  // Returns the symbol of row 3 for "s3"; nullopt for derived symbols and other names.
  std::optional<Size> symbol_called(const std::string& name) const {
    const auto row = name.starts_with('s') ? parse_number<std::size_t>(name.substr(1)) : std::nullopt;
    if (!row || *row >= program_.symbols.size()) return std::nullopt;
    const SymbolId id(*row);
    return program_.symbols[id].kind == SymbolKind::derived ? std::nullopt : std::optional(Size::symbol(id));
  }

  void read_constraints() {
    const auto list = document_.find(sidecar_form::constraints);
    if (!list) return;
    const std::string place = "/" + std::string(sidecar_form::constraints);
    if (!list->is_array()) text_.corrupt(place, "expected a list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto names = [&](const std::string& name) { return symbol_called(name); };
      const auto read = (*list)[i].is_string() ? whence::read_constraints((*list)[i].text(), names) : std::nullopt;
      if (!read || read->size() != 1) text_.corrupt(place + "/" + std::to_string(i), "expected a condition: s0 <= 5");
      program_.constraints.push_back(read->front());
    }
  }

  void read_places() {
    const auto list = document_.find(sidecar_form::places);
    if (!list) return drop_old_places();
    program_.placed = true;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const JsonValue row = (*list)[i];
      const auto corrupt = [&](const std::string& why) {
        text_.corrupt("/" + std::string(sidecar_form::places) + "/" + std::to_string(i), why);
      };
      const auto value = [&](std::size_t column) {
        const bool valid =
            row.size() > column && row[column].is_unsigned() && row[column].unsigned_integer() < value_count_;
        if (!valid) corrupt("expected a row of values");
        return ValueId(row[column].unsigned_integer());
      };
      StatedPlace stated{value(0), std::nullopt};
      if (!program_.places.empty() && program_.places.back().value >= stated.value)
        corrupt("the values are not in ascending order");
      const auto sizes = sizes_of(program_, stated.value);
      const auto size = [&](const JsonValue& cell) {
        if (cell.is_null()) return Size::unknown();
        const auto read =
            cell.is_string()
                ? read_size(cell.text(),
                            [&](const std::string& name) {
                              const auto axis =
                                  name.starts_with('d') ? parse_number<std::size_t>(name.substr(1)) : std::nullopt;
                              if (axis && *axis < sizes->size())
                                return std::optional(local_symbol({stated.value, static_cast<int>(*axis)}));
                              return symbol_called(name);
                            })
                : std::nullopt;
        if (!read) corrupt("expected sizes of symbols and of the tensor's own axes: 2*s0 + d1");
        return *read;
      };
      if (row.size() > 1) {
        if (row.size() != 4 || !sizes || row[3].size() != sizes->size()) corrupt("expected memory, offset and strides");
        stated.place = MemoryPlace{value(1), size(row[2]), *sizes, {}};
        for (std::size_t axis = 0; axis < sizes->size(); ++axis) stated.place->strides.push_back(size(row[3][axis]));
      }
      program_.places.push_back(std::move(stated));
    }
  }

  // Before 1.3, reshapes and as_strided had an argument with the observed layout. Drops it: the layouts are unknown
  // now.
  void drop_old_places() {
    each_node(program_.body, [](Node& node) {
      std::erase_if(node.arguments, [](const NamedArgument& each) { return each.name == "memory_of_self"; });
    });
  }

  // Checks that the row's number of bytes fits shape and dtype.
  static void check_bytes(const Cell& cell, const TensorData& data) {
    if (data.dtype == DType::undefined) return;
    std::size_t expected = size_of(data.dtype);
    for (const std::int64_t size : data.shape) {
      if (__builtin_mul_overflow(expected, static_cast<std::size_t>(size), &expected)) {
        cell.corrupt("the shape is larger than any memory");
      }
    }
    if (expected != data.bytes.size()) {
      cell.corrupt("dtype and shape need " + std::to_string(expected) + " bytes, but the row states " +
                   std::to_string(data.bytes.size()));
    }
  }

  static std::vector<std::int8_t> sketch(const Cell& cell) {
    const auto bytes = from_base64(cell.word_or_null());
    if (!bytes) cell.corrupt("the sketch is not base64");
    return {bytes->begin(), bytes->end()};
  }

  void read_parameters() {
    program_.parameters.items() = table(sidecar_form::parameters).read<Parameter>([](RowReader& row) {
      Parameter parameter;
      TensorData& data = parameter.data;
      parameter.name = row.next().text();
      parameter.aliases = row.next().texts();
      parameter.kind = row.next().one_of<ParameterKind>(sidecar_form::parameter_kinds);
      parameter.trainable = row.next().flag();
      parameter.persistent = row.next().flag();
      data.dtype = row.next().dtype();
      data.shape = row.next().sizes();
      std::string file(row.next().word_or_null());
      parameter.member = row.next().word_or_null();
      const auto offset = static_cast<std::uint64_t>(row.next().size());
      const Cell bytes = row.next();
      data.bytes = Bytes::left_out(static_cast<std::size_t>(bytes.size())).stored_in(std::move(file), offset);
      check_bytes(bytes, data);
      parameter.digests.content = row.next().word_or_null();
      parameter.digests.transposed = row.next().word_or_null();
      parameter.digests.float16 = row.next().word_or_null();
      parameter.digests.bfloat16 = row.next().word_or_null();
      parameter.sketch = sketch(row.next());
      const Cell content = row.next();
      if (const std::string_view text = content.word_or_null(); !text.empty()) {
        auto held = from_base64(text);
        if (!held || held->size() != data.bytes.size()) content.corrupt("the data are not base64 of the stated bytes");
        data.bytes = Bytes::owned(std::move(*held)).stored_in(data.bytes.file(), data.bytes.offset());
      }
      return parameter;
    });
  }

  void read_modules() {
    const std::size_t count = rows_of(sidecar_form::modules);
    if (count == 0) text_.corrupt("/modules/rows", "there is no root module");
    program_.modules.items() = table(sidecar_form::modules).read<Module>([&](RowReader& row) {
      Module module;
      module.path = row.next().text();
      module.type = row.next().text();
      module.parent = parent<ModuleId>(row.next(), row.number());
      module.aliases = row.next().texts();
      module.children = row.next().indices<ModuleId>(count);
      module.level = static_cast<int>(row.next().integer(0, INT32_MAX));
      module.standard = row.next().flag();
      module.own_parameters = row.next().indices<ParameterId>(program_.parameters.size());
      module.parameters_total = row.next().size();
      module.parameters_trainable = row.next().size();
      return module;
    });
    check_children();
  }

  // Reads the parent of a row: none for the root (row 0), an earlier row for all others.
  template <class Id>
  static Id parent(const Cell& cell, std::size_t row) {
    if (row > 0) return Id(cell.index(row));
    if (cell.integer(none_id, INT32_MAX) != none_id) cell.corrupt("the root has no parent");
    return none_id;
  }

  // A shared module may have several parents, but no module may be its own descendant. Repeatedly removes modules
  // without remaining parents (topological sort); modules that remain form a cycle.
  void check_children() {
    const auto& modules = program_.modules;
    IndexedVector<ModuleId, int> parents_left(modules.size());
    for (const Module& module : modules) {
      for (const ModuleId child : module.children) ++parents_left[child];
    }
    std::vector<ModuleId> removable;
    for (const ModuleId id : modules.keys()) {
      if (parents_left[id] == 0) removable.push_back(id);
    }
    for (std::size_t i = 0; i < removable.size(); ++i) {
      for (const ModuleId child : modules[removable[i]].children) {
        if (--parents_left[child] == 0) removable.push_back(child);
      }
    }
    if (removable.size() != modules.size()) text_.corrupt("/modules", "a module is its own descendant");
  }

  void read_scopes() {
    if (rows_of(sidecar_form::scopes) == 0) text_.corrupt("/scopes/rows", "there is no scope of the root's call");
    program_.scopes.items() = table(sidecar_form::scopes).read<Scope>([&](RowReader& row) {
      Scope scope;
      scope.parent = parent<ScopeId>(row.next(), row.number());
      scope.module = row.next().index_into(program_.modules);
      scope.call = static_cast<std::int32_t>(row.next().integer(0, INT32_MAX));
      return scope;
    });
  }

  void read_stacks() {
    const auto frames = table(sidecar_form::frames).read<Frame>([](RowReader& row) {
      Frame frame;
      frame.file = row.next().text();
      frame.line = static_cast<std::int32_t>(row.next().integer(INT32_MIN, INT32_MAX));
      frame.function = row.next().text();
      frame.text = row.next().text();
      return frame;
    });
    program_.stacks.items() = table(sidecar_form::stacks).read<Stack>([&](RowReader& row) {
      Stack stack;
      for (const std::int32_t frame : row.next().indices(frames.size())) stack.push_back(frames[frame]);
      return stack;
    });
  }

  void read_constants() {
    program_.constants.items() = table(sidecar_form::constants).read<Constant>([&](RowReader& row) {
      Constant constant;
      constant.name = row.next().text();
      constant.data.dtype = row.next().dtype();
      constant.data.shape = row.next().sizes();
      const Cell size = row.next();
      const Cell content = row.next();
      if (content.is_null()) {
        constant.data.bytes = Bytes::left_out(static_cast<std::size_t>(size.size()));
      } else {
        auto bytes = from_base64(content.word());
        if (!bytes) content.corrupt("the data are not base64");
        if (bytes->size() != static_cast<std::size_t>(size.size()))
          content.corrupt("the size of the data differs from the stated size");
        constant.data.bytes = Bytes::owned(std::move(*bytes));
      }
      check_bytes(size, constant.data);
      constant.digest = row.next().word_or_null();
      constant.ops = row.next().indices(operation_count_);
      return constant;
    });
  }

  void read_values() {
    program_.values.items() = table(sidecar_form::values).read<Value>([&](RowReader& row) {
      Value value;
      value.name = row.next().text();
      value.type.kind = row.next().one_of<ValueKind>(sidecar_form::value_kinds);
      value.type.dtype = row.next().dtype();
      if (const Cell dims = row.next(); !dims.is_null()) {
        std::vector<Dim>& read = value.type.dims.emplace(dims.length());
        for (std::size_t i = 0; i < read.size(); ++i) read[i] = dim(dims.element(i));
        require_countable(dims, read);
      }
      value.source = row.next().one_of<ValueSource>(sidecar_form::value_sources);
      value.index = source_index(row.next(), value.source);
      value.known = row.next().index_into_or_none(program_.constants);
      return value;
    });
  }

  // Checks that the product of the sizes fits, with each 0 counted as 1: converters also multiply some of the sizes.
  static void require_countable(const Cell& cell, const std::vector<Dim>& dims) {
    std::int64_t count = 1;
    for (const Dim& dim : dims) {
      if (!__builtin_mul_overflow(count, std::max<std::int64_t>(dim.size, 1), &count) && count <= max_elements)
        continue;
      cell.corrupt("the sizes are larger than any memory");
    }
  }

  Dim dim(const Cell& cell) const {
    if (!cell.is_list()) return {cell.integer(-1, INT64_MAX), false, none_id};
    if (cell.length() != 2) cell.corrupt("expected a dynamic size: [size, symbol or -1]");
    return {cell.element(0).integer(-1, INT64_MAX), true, cell.element(1).index_into_or_none(program_.symbols)};
  }

  std::int32_t source_index(const Cell& cell, ValueSource source) const {
    switch (source) {
      case ValueSource::input:
        return cell.index(program_.inputs.size());
      case ValueSource::parameter:
        return cell.index(program_.parameters.size());
      case ValueSource::constant:
        return cell.index(program_.constants.size());
      case ValueSource::node:
      case ValueSource::block_input:
        return static_cast<std::int32_t>(cell.integer(none_id, INT32_MAX));
    }
    cell.corrupt("a source without an index");
  }

  void read_signature() {
    program_.inputs = table(sidecar_form::inputs).read<ProgramInput>([&](RowReader& row) {
      ProgramInput input;
      input.name = row.next().text();
      input.value = ValueId(row.next().index(value_count_));
      return input;
    });
    program_.outputs = table(sidecar_form::outputs).read<ProgramOutput>([&](RowReader& row) {
      ProgramOutput output;
      output.name = row.next().text();
      output.value = row.next().argument(value_count_);
      return output;
    });
  }

  // Reads torch.export's graph signature, which has no references into other tables.
  void read_stated_signature() {
    enum class Role : std::uint8_t { input, output };
    for (std::size_t i = 0; i < rows_of(sidecar_form::signature); ++i) {
      RowReader row = table(sidecar_form::signature).row(i);
      const auto role = row.next().one_of<Role>(sidecar_form::signature_roles);
      SignatureEntry entry;
      entry.kind = row.next().text();
      entry.name = row.next().text();
      if (const Cell target = row.next(); !target.is_null()) entry.target = target.text();
      if (const Cell persistent = row.next(); !persistent.is_null()) entry.persistent = persistent.flag();
      (role == Role::input ? program_.signature.inputs : program_.signature.outputs).push_back(std::move(entry));
    }
  }

  // A row of the block table. assemble() builds the tree from the flat tables of operations and blocks.
  struct FlatBlock {
    std::int32_t operation = none_id;  // the operation that contains the block
    Block block;
    std::vector<std::int32_t> operations;
  };

  void read_operations() {
    blocks_ = table(sidecar_form::blocks).read<FlatBlock>([&](RowReader& row) {
      FlatBlock flat;
      const Cell operation = row.next();
      flat.operation = row.number() > 0 ? operation.index(operation_count_) : operation.index_or_none(0);
      flat.block.inputs = row.next().indices<ValueId>(value_count_);
      const Cell outputs = row.next();
      for (std::size_t i = 0; i < outputs.length(); ++i) {
        flat.block.outputs.push_back(outputs.element(i).argument(value_count_));
      }
      return flat;
    });
    if (blocks_.empty()) text_.corrupt("/blocks/rows", "there is no block for the program's body");
    nodes_ = table(sidecar_form::operations).read<Node>([&](RowReader& row) { return operation(row); });
    blocks_of_.resize(nodes_.size());
    for (std::size_t i = 1; i < blocks_.size(); ++i) {
      blocks_of_[blocks_[i].operation].push_back(static_cast<std::int32_t>(i));
    }
    defined_at_start_.resize(value_count_);
    defined_.resize(value_count_);
    for (const ValueId id : program_.values.keys()) {
      const Value& value = program_.values[id];
      const bool from_node = value.source == ValueSource::node || value.source == ValueSource::block_input;
      defined_at_start_[id] = !from_node || value.known != none_id;
    }
    program_.body = assemble(0, 0);
    if (assembled_ != operation_count_) {
      text_.corrupt("/operations", "operations or blocks are not in execution order");
    }
  }

  Node operation(RowReader& row) {
    Node node;
    node.origin.op = static_cast<std::int32_t>(row.number());
    node.origin.basis = bases_[node.origin.op];
    node.target = row.next().text();
    node.overload = row.next().text();
    node.origin.scope = row.next().index_into(program_.scopes);
    node.origin.stack = row.next().index_into_or_none(program_.stacks);
    node.origin.name = row.next().text();
    const Cell arguments = row.next();
    if (arguments.length() % 2 != 0) arguments.corrupt("expected pairs of name and value");
    for (std::size_t i = 0; i < arguments.length(); i += 2) {
      node.arguments.push_back({arguments.element(i).text(), arguments.element(i + 1).argument(value_count_)});
    }
    node.outputs = row.next().indices<ValueId>(value_count_);
    node.list_output = row.next().flag();
    const std::int32_t block = row.next().index(blocks_.size());
    blocks_[block].operations.push_back(node.origin.op);
    node.origin.text = row.next().text();
    return node;
  }

  // Checks that every value is defined before it is read: converters rely on it.
  void require_defined(const Argument& argument, const std::string& where) const {
    each_value(argument, [&](ValueId id) {
      if (!defined_at_start_[id] && !defined_[id]) {
        text_.corrupt(where, "value " + std::to_string(id.number()) + " is read before it is defined");
      }
    });
  }

  // Defines values and appends them to `block_values`. Each value has one definition, an operation or a block.
  void define(const std::vector<ValueId>& values, std::vector<ValueId>& block_values, const std::string& where) {
    for (const ValueId id : values) {
      if (defined_[id]) text_.corrupt(where, "value " + std::to_string(id.number()) + " is defined a second time");
      defined_[id] = true;
      block_values.push_back(id);
    }
  }

  // Builds a block and its nested blocks. Operations must be numbered in execution order: after the earlier operations
  // of the block and the contents of their blocks. Values that the block defines are undefined after it.
  Block assemble(std::int32_t number, int depth) {
    if (depth > kDeepestBlocks) text_.corrupt("/blocks", "blocks are nested too deeply");
    FlatBlock& flat = blocks_[number];
    Block block = std::move(flat.block);
    std::vector<ValueId> block_values;
    const std::string where = "/blocks/rows/" + std::to_string(number);
    define(block.inputs, block_values, where);
    for (const std::int32_t op : flat.operations) {
      if (static_cast<std::size_t>(op) != assembled_++) {
        text_.corrupt(row_of(op), "the operation is not in execution order");
      }
      Node& node = block.nodes.emplace_back(std::move(nodes_[op]));
      for (const NamedArgument& argument : node.arguments) require_defined(argument.value, row_of(op));
      for (const std::int32_t nested : blocks_of_[op]) node.blocks.push_back(assemble(nested, depth + 1));
      define(node.outputs, block_values, row_of(op));
    }
    for (const Argument& output : block.outputs) require_defined(output, where);
    if (number == 0) require_outputs();
    for (const ValueId id : block_values) defined_[id] = false;
    return block;
  }

  static std::string row_of(std::int32_t op) { return "/operations/rows/" + std::to_string(op); }

  void require_outputs() const {
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      require_defined(program_.outputs[i].value, "/outputs/rows/" + std::to_string(i));
    }
  }

  void read_bases() {
    bases_.resize(operation_count_, ScopeBasis::observed);
    for (std::size_t i = 0; i < sidecar_form::bases.size(); ++i) {
      const std::string name(sidecar_form::bases[i]);
      const auto list = document_.find(name);
      if (!list) continue;
      if (!list->is_array()) text_.corrupt("/" + name, "expected an array");
      for (std::size_t at = 0; at < list->size(); ++at) {
        const JsonValue op = (*list)[at];
        if (!op.is_unsigned() || op.unsigned_integer() >= operation_count_) {
          text_.corrupt("/" + name, "expected rows of operations");
        }
        bases_[op.unsigned_integer()] = static_cast<ScopeBasis>(i + 1);
      }
    }
  }

  JsonValue document_;
  const SidecarText& text_;
  std::vector<ScopeBasis> bases_;  // by operation
  Program program_;
  std::size_t value_count_ = 0, operation_count_ = 0;
  IndexedVector<ValueId, bool> defined_at_start_;  // inputs, parameters and constants
  IndexedVector<ValueId, bool> defined_;           // defined by an operation or block that is already assembled
  std::vector<FlatBlock> blocks_;
  std::vector<Node> nodes_;                           // in table order, until assemble() moves them
  std::vector<std::vector<std::int32_t>> blocks_of_;  // by operation
  std::size_t assembled_ = 0;
};

}  // namespace

Program read_program(JsonValue document, const SidecarText& text) { return ProgramReader(document, text).read(); }

}  // namespace whence
