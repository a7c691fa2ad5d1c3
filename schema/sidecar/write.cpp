// Writes a Program as sidecar text. Rows are appended to one string without a JSON document in memory.
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "schema/files/files.h"
#include "schema/json_text.h"
#include "schema/sidecar/base64.h"
#include "schema/sidecar/file_names.h"
#include "schema/sidecar/form.h"
#include "schema/sidecar/row_writer.h"
#include "schema/sidecar/sidecar.h"
#include "schema/size_text.h"

namespace whence {
namespace {

struct OperationRow {
  const Node* node;
  std::int32_t block;
};
struct BlockRow {
  const Block* block;
  std::int32_t operation;  // the operation that contains it; none_id for the program's body
};

class Writer {
 public:
  explicit Writer(const Sidecar& sidecar) : sidecar_(sidecar), program_(sidecar.program) {
    if (sidecar.unknown_columns) unknown_columns_ = nlohmann::ordered_json::parse(*sidecar.unknown_columns);
  }

  std::string text() {
    number_rows(program_.body, none_id);
    symbols();
    modules();
    scopes();
    stacks();
    parameters();
    constants();
    values();
    inputs_and_outputs();
    signature();
    operations();
    bindings();
    return "{\n" + header() + "\"strings\": [" + strings_.rows() + "\n]" + tables_ + bases() + constraints() +
           places() + unknown() + "\n}\n";
  }

 private:
  // Returns the columns of a newer version if the table still has the same number of rows.
  const nlohmann::ordered_json* unknown_columns(const sidecar_form::Table& form, std::size_t rows) const {
    const auto found = unknown_columns_.find(std::string(form.name));
    return found != unknown_columns_.end() && (*found)["rows"].size() == rows ? &*found : nullptr;
  }

  template <class Items, class Row>
  void table(const sidecar_form::Table& form, const Items& items, Row write_row) {
    const nlohmann::ordered_json* newer = unknown_columns(form, items.size());
    tables_.append(",\n\"").append(form.name).append("\": {\"columns\": [");
    for (const auto column : form.columns) {
      tables_.append(column == form.columns.front() ? "\"" : ", \"").append(column).append("\"");
    }
    if (newer != nullptr) {
      for (const auto& column : (*newer)["columns"]) tables_.append(", ").append(json_text(column));
    }
    tables_ += "], \"rows\": [";
    std::size_t written = 0;
    for (const auto& item : items) {
      tables_ += written == 0 ? "\n[" : ",\n[";
      RowWriter row(tables_, strings_);
      write_row(row, item);
      if (newer != nullptr) {
        for (const auto& cell : (*newer)["rows"][written]) row.raw(json_text(cell));
      }
      tables_ += ']';
      ++written;
    }
    tables_ += written == 0 ? "]}" : "\n]}";
  }

  void field(std::string& out, std::string_view name, const std::string& json) {
    out.append("\"").append(name).append("\": ").append(json).append(",\n");
  }

  std::string header() {
    const SourceFile& source = program_.source;
    std::string out;
    field(out, "format", json_string(sidecar_form::format));
    const int minor = std::max(sidecar_minor, sidecar_.minor);
    field(out, "version", json_string(std::to_string(sidecar_major) + "." + std::to_string(minor)));
    field(out, "producer", json_string(program_.producer));
    field(out, "source",
          "{\"kind\": " + json_string(source.kind) + ", \"file\": " + json_string(base_name(source.file)) +
              ", \"size\": " + std::to_string(source.size) + ", \"digest\": " + json_string(source.digest) + "}");
    field(out, "program_digest", json_string(program_digest(program_)));
    field(out, "ran", program_.ran ? "true" : "false");
    if (!sidecar_.complete) field(out, "complete", "false");
    return out;
  }

  // Lists operations whose scope was not observed, one list for each ScopeBasis.
  std::string bases() const {
    std::string fields;
    for (std::size_t i = 0; i < sidecar_form::bases.size(); ++i) {
      std::string list;
      for (std::size_t op = 0; op < operations_.size(); ++op) {
        if (static_cast<std::size_t>(operations_[op].node->origin.basis) != i + 1) continue;
        list += (list.empty() ? "" : ", ") + std::to_string(op);
      }
      if (!list.empty()) fields += ",\n" + json_string(sidecar_form::bases[i]) + ": [" + list + "]";
    }
    return fields;
  }

  // Returns the fields of a newer minor version, which are written at the end.
  std::string unknown() const {
    if (sidecar_.unknown == nullptr) return "";
    std::string out;
    const auto fields = nlohmann::ordered_json::parse(*sidecar_.unknown);
    for (const auto& [name, content] : fields.items()) {
      out += ",\n" + json_string(name) + ": " + json_text(content);
    }
    return out;
  }

  void symbols() {
    table(sidecar_form::symbols, program_.symbols, [](RowWriter& row, const Symbol& symbol) {
      row.text(symbol.name);
      row.integer(symbol.example);
      row.integer_or_null(symbol.min);
      row.integer_or_null(symbol.max);
      row.word(sidecar_form::symbol_kinds[static_cast<std::size_t>(symbol.kind)]);
      row.word_or_null(symbol.kind == SymbolKind::derived ? text_of(symbol.size, sidecar_form::symbol_name) : "");
    });
  }

  std::string constraints() const {
    std::string list;
    for (const Constraint& constraint : program_.constraints) {
      list += (list.empty() ? "" : ", ") + json_string(text_of(constraint, sidecar_form::symbol_name));
    }
    return list.empty() ? "" : ",\n" + json_string(sidecar_form::constraints) + ": [" + list + "]";
  }

  std::string places() const {
    if (!program_.placed) return "";
    const auto text = [](const Size& size) {
      return size.is_known() ? json_string(text_of(size, sidecar_form::place_symbol_name)) : "null";
    };
    std::string list;
    for (const auto& [value, place] : program_.places) {
      list += (list.empty() ? "[" : ", [") + std::to_string(value.number());
      if (place) {
        list += ", " + std::to_string(place->memory.number()) + ", " + text(place->offset) + ", [";
        for (const Size& stride : place->strides) list += (&stride == place->strides.data() ? "" : ", ") + text(stride);
        list += "]";
      }
      list += "]";
    }
    return ",\n" + json_string(sidecar_form::places) + ": [" + list + "]";
  }

  void modules() {
    table(sidecar_form::modules, program_.modules, [](RowWriter& row, const Module& module) {
      row.text(module.path);
      row.text(module.type);
      row.integer(module.parent);
      row.texts(module.aliases);
      row.integers(module.children);
      row.integer(module.level);
      row.flag(module.standard);
      row.integers(module.own_parameters);
      row.integer(module.parameters_total);
      row.integer(module.parameters_trainable);
    });
  }

  void scopes() {
    table(sidecar_form::scopes, program_.scopes, [](RowWriter& row, const Scope& scope) {
      row.integer(scope.parent);
      row.integer(scope.module);
      row.integer(scope.call);
    });
  }

  // Frames have their own table because most stacks share their outer frames.
  void stacks() {
    std::map<std::tuple<std::string_view, std::int32_t, std::string_view, std::string_view>, std::int32_t> ids;
    std::vector<const Frame*> frames;
    std::vector<std::vector<std::int32_t>> stacks;
    for (const Stack& stack : program_.stacks) {
      std::vector<std::int32_t>& row = stacks.emplace_back();
      for (const Frame& frame : stack) {
        const auto [found, is_new] = ids.try_emplace({frame.file, frame.line, frame.function, frame.text},
                                                     static_cast<std::int32_t>(frames.size()));
        if (is_new) frames.push_back(&frame);
        row.push_back(found->second);
      }
    }
    table(sidecar_form::frames, frames, [](RowWriter& row, const Frame* frame) {
      row.text(frame->file);
      row.integer(frame->line);
      row.text(frame->function);
      row.text(frame->text);
    });
    table(sidecar_form::stacks, stacks, [](RowWriter& row, const auto& stack) { row.integers(stack); });
  }

  void parameters() {
    table(sidecar_form::parameters, program_.parameters, [this](RowWriter& row, const Parameter& parameter) {
      row.text(parameter.name);
      row.texts(parameter.aliases);
      row.word(sidecar_form::parameter_kinds[static_cast<std::size_t>(parameter.kind)]);
      row.flag(parameter.trainable);
      row.flag(parameter.persistent);
      row.word(name_of(parameter.data.dtype));
      row.integers(parameter.data.shape);
      row.word_or_null(base_name(parameter.data.bytes.file()));
      row.word_or_null(parameter.member);
      row.integer(static_cast<std::int64_t>(parameter.data.bytes.offset()));
      row.integer(static_cast<std::int64_t>(parameter.data.bytes.size()));
      row.word_or_null(parameter.digests.content);
      row.word_or_null(parameter.digests.transposed);
      row.word_or_null(parameter.digests.float16);
      row.word_or_null(parameter.digests.bfloat16);
      row.word_or_null(to_base64(std::as_bytes(std::span(parameter.sketch))));
      // A checkpoint does not have the buffers that are not persistent, such as the frequencies of rotary positions.
      // TorchScript does not know which these are; there, integers are positions and indices.
      const bool is_index = parameter.kind == ParameterKind::buffer && is_integral(parameter.data.dtype);
      const auto bytes = parameter.data.bytes.in_memory();
      const std::size_t size = bytes ? bytes->size() : 0;
      const bool is_small = (is_index || !parameter.persistent) && size <= sidecar_form::inline_limit;
      const bool is_unsaved = !parameter.persistent && size <= sidecar_form::unsaved_limit &&
                              size <= sidecar_form::all_unsaved_limit - unsaved_;
      const bool held = bytes && (is_small || is_unsaved);
      if (held && !is_small) unsaved_ += size;
      row.word_or_null(held ? to_base64(*bytes) : "");
    });
  }

  void constants() {
    table(sidecar_form::constants, program_.constants, [](RowWriter& row, const Constant& constant) {
      const auto bytes = constant.data.bytes.in_memory();
      const bool held = bytes && bytes->size() <= sidecar_form::inline_limit;
      row.text(constant.name);
      row.word(name_of(constant.data.dtype));
      row.integers(constant.data.shape);
      row.integer(static_cast<std::int64_t>(constant.data.bytes.size()));
      held ? row.word(to_base64(*bytes)) : row.raw("null");
      row.word_or_null(held ? "" : bytes ? digest_of(bytes->data(), bytes->size()) : constant.digest);
      row.integers(constant.ops);
    });
  }

  // Writes a static size as a number, a dynamic size as [size, symbol or -1], and an unknown rank as null.
  void values() {
    table(sidecar_form::values, program_.values, [](RowWriter& row, const Value& value) {
      row.text(value.name);
      row.word(sidecar_form::value_kinds[static_cast<std::size_t>(value.type.kind)]);
      row.word(name_of(value.type.dtype));
      if (value.type.dims) {
        row.list(*value.type.dims, [&](const Dim& dim) {
          dim.dynamic ? row.integers(std::vector{dim.size, std::int64_t{dim.symbol.number()}}) : row.integer(dim.size);
        });
      } else {
        row.raw("null");
      }
      row.word(sidecar_form::value_sources[static_cast<std::size_t>(value.source)]);
      row.integer(value.index);
      row.integer(value.known);
    });
  }

  void inputs_and_outputs() {
    table(sidecar_form::inputs, program_.inputs, [](RowWriter& row, const ProgramInput& input) {
      row.text(input.name);
      row.integer(input.value);
    });
    table(sidecar_form::outputs, program_.outputs, [](RowWriter& row, const ProgramOutput& output) {
      row.text(output.name);
      row.argument(output.value);
    });
  }

  void signature() {
    struct Line {
      std::string_view role;
      const SignatureEntry* entry;
    };
    std::vector<Line> lines;  // inputs, then outputs
    for (const SignatureEntry& entry : program_.signature.inputs) {
      lines.push_back({sidecar_form::signature_roles[0], &entry});
    }
    for (const SignatureEntry& entry : program_.signature.outputs) {
      lines.push_back({sidecar_form::signature_roles[1], &entry});
    }
    table(sidecar_form::signature, lines, [](RowWriter& row, const Line& line) {
      const SignatureEntry& entry = *line.entry;
      row.word(line.role);
      row.text(entry.kind);
      row.text(entry.name);
      entry.target ? row.text(*entry.target) : row.raw("null");
      entry.persistent ? row.flag(*entry.persistent) : row.raw("null");
    });
  }

  // Numbers operations and blocks in execution order: an operation, then the contents of its blocks.
  void number_rows(const Block& block, std::int32_t operation) {
    const auto number = static_cast<std::int32_t>(blocks_.size());
    blocks_.push_back({&block, operation});
    for (const Node& node : block.nodes) {
      const auto own = static_cast<std::int32_t>(operations_.size());
      operations_.push_back({&node, number});
      for (const Block& nested : node.blocks) number_rows(nested, own);
    }
  }

  void operations() {
    table(sidecar_form::blocks, blocks_, [](RowWriter& row, const BlockRow& block) {
      row.integer(block.operation);
      row.integers(block.block->inputs);
      row.list(block.block->outputs, [&](const Argument& output) { row.argument(output); });
    });
    table(sidecar_form::operations, operations_, [](RowWriter& row, const OperationRow& operation) {
      const Node& node = *operation.node;
      row.text(node.target);
      row.text(node.overload);
      row.integer(node.origin.scope);
      row.integer(node.origin.stack);
      row.text(node.origin.name);
      row.list(node.arguments, [&](const NamedArgument& argument) {
        row.text(argument.name);
        row.argument(argument.value);
      });
      row.integers(node.outputs);
      row.flag(node.list_output);
      row.integer(operation.block);
      row.text(node.origin.text);
    });
  }

  void bindings() {
    table(sidecar_form::bindings, sidecar_.bindings, [](RowWriter& row, const Binding& binding) {
      row.word(base_name(binding.file));
      row.word(binding.digest);
      row.integer(binding.opset);
      row.integer(binding.nodes);
    });
  }

  const Sidecar& sidecar_;
  const Program& program_;
  std::size_t unsaved_ = 0;  // bytes written of larger buffers that no checkpoint has
  nlohmann::ordered_json unknown_columns_ = nlohmann::ordered_json::object();
  StringTable strings_;
  std::string tables_;
  std::vector<OperationRow> operations_;
  std::vector<BlockRow> blocks_;
};

}  // namespace

std::string to_json_text(const Sidecar& sidecar) { return Writer(sidecar).text(); }

void write_sidecar(const Sidecar& sidecar, const std::string& path) {
  require_sidecar_name(path);
  write_file(path, to_json_text(sidecar));
}

}  // namespace whence
