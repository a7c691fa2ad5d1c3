// data, sizes = pack(x, lengths); y, h = lstm.data(data, sizes, ...); out, _ = pad(y, sizes)
//   ->   y, h = lstm.data(x, lengths, ...); out = y[:max(lengths)]
//
// PyTorch packs sequences of different lengths by time step; ONNX keeps them padded and takes their lengths. Between
// packing and padding, the padded sequences [T, N, F] therefore replace the packed data, and the lengths replace the
// batch sizes. Programs that read packed data in another way stay unchanged and are refused later.
#include <algorithm>
#include <unordered_map>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::lower {

using program::Replacements;

namespace {

bool packs(const Node& node) { return node.target == "aten::_pack_padded_sequence" && node.outputs.size() == 2; }
bool pads(const Node& node) { return node.target == "aten::_pad_packed_sequence" && node.outputs.size() == 2; }

bool recurs(const Node& node) { return facts_of(node.target).recurrent && node.overload == "data"; }

// Returns true for batch_sizes[0], the number of sequences: initial states have this size.
bool counts_sequences(const Program& program, const Node& node) {
  if (node.target != "aten::select" || node.overload != "int") return false;
  const Argument *dim = node.find("dim"), *index = node.find("index");
  return dim != nullptr && index != nullptr && known_integer(program, *dim) == 0 && known_integer(program, *index) == 0;
}

// Returns true for len(batch_sizes), the number of steps of the longest sequence: pad_packed_sequence reads it.
bool counts_steps(const Program& program, const Node& node) {
  const Argument* dim = node.find("dim");
  return node.target == "aten::size" && node.overload == "int" && dim != nullptr && known_integer(program, *dim) == 0;
}

class PackedSequences {
 public:
  explicit PackedSequences(Lowering& lowering) : program_(lowering.program) {}

  void run() {
    each_node(program_.body, [this](const Node& node) { collect(node); });
    each_node(program_.body, [this](const Node& node) { check(node); });
    for (const ProgramOutput& output : program_.outputs) check(output.value);
    if (!understood_) return;
    Replacements replaced;
    program::expand_nodes(program_, replaced,
                          [&](const Node& node, std::vector<Node>& to) { return open(node, to, replaced); });
  }

 private:
  struct Padded {
    Argument sequences, lengths;  // [T, N, F], [N]
    ValueId input = none_id;      // the packed tensor
    std::int64_t time_axis = 0;   // axis T of `input`
  };

  // ---- checking for other readers

  void collect(const Node& node) {
    note_length(node);
    if (packs(node)) data_.insert(node.outputs[0]), sizes_.insert(node.outputs[1]);
    if (recurs(node)) data_.insert(node.outputs[0]);
  }

  // Records x.size(1), also through a tensor, as in traces.
  void note_length(const Node& node) {
    const auto* first = node.arguments.empty() ? nullptr : node.arguments.front().value.as<ValueRef>();
    if (first == nullptr || node.outputs.size() != 1) return;
    if (node.target == "aten::size" || node.target == "aten::sym_size") {
      const Argument* dim = node.find("dim");
      const auto axis = dim == nullptr ? std::nullopt : known_integer(program_, *dim);
      if (axis) length_[node.outputs[0]] = {first->id, *axis};
    } else if (node.target == "prim::NumToTensor" || node.target == "aten::Int") {
      if (const auto found = length_.find(first->id); found != length_.end()) {
        const auto length = found->second;
        length_[node.outputs[0]] = length;
      }
    }
  }

  void check(const Node& node) {
    const bool takes_both = recurs(node) || (pads(node) && pads_with_zeros(node));
    for (const NamedArgument& argument : node.arguments) {
      if (takes_both && (argument.name == "data" || argument.name == "batch_sizes")) continue;
      const bool counts = counts_sequences(program_, node) || counts_steps(program_, node);
      if (counts && argument.name == "self" && !reads(argument.value, data_)) continue;
      check(argument.value);
    }
    for (const Block& block : node.blocks) {
      for (const Argument& output : block.outputs) check(output);
    }
  }

  void check(const Argument& argument) {
    understood_ = understood_ && !reads(argument, data_) && !reads(argument, sizes_);
  }

  static bool reads(const Argument& argument, const std::unordered_set<ValueId>& values) {
    bool found = false;
    each_value(argument, [&](ValueId id) { found |= values.contains(id); });
    return found;
  }

  bool pads_with_zeros(const Node& node) const {
    const Argument* value = node.find("padding_value");
    const auto* number = value == nullptr ? nullptr : value->as<double>();
    return value == nullptr || (number != nullptr && *number == 0) || known_integer(program_, *value) == 0;
  }

  // ---- rewriting

  bool open(const Node& node, std::vector<Node>& to, Replacements& replaced) {
    if (packs(node)) {
      const Argument& input = *node.find("input");
      const bool batch_first = known_flag(program_, *node.find("batch_first")).value_or(false);
      const Argument padded = batch_first ? swapped(node, input, to, none_id) : input;
      const auto* packed = input.as<ValueRef>();
      by_value_[node.outputs[0]] =
          by_value_[node.outputs[1]] = {padded, *node.find("lengths"), packed->id, batch_first ? 1 : 0};
      return true;
    }
    const bool counts = counts_sequences(program_, node) || counts_steps(program_, node);
    const Argument* first = node.find(counts ? "self" : "data");
    const auto* reference = first == nullptr ? nullptr : first->as<ValueRef>();
    const auto found = reference == nullptr ? by_value_.end() : by_value_.find(reference->id);
    if (found == by_value_.end()) return false;
    const Padded padded = found->second;
    if (recurs(node)) {
      recur(node, padded, to);
    } else if (pads(node)) {
      pad(node, padded, to, replaced);
    } else if (counts_steps(program_, node)) {
      longest(node, padded, to, node.outputs[0]);
    } else {
      count(node, padded, to);
    }
    return true;
  }

  Argument longest(const Node& node, const Padded& padded, std::vector<Node>& to, ValueId output) {
    const Argument longest_length = add(node, "aten::max", "", {{"self", padded.lengths}},
                                        {ValueKind::tensor, DType::int64, std::vector<Dim>()}, to);
    return add(node, "aten::Int", "Tensor", {{"a", longest_length}}, {ValueKind::integer, DType::int64, std::nullopt},
               to, output);
  }

  void recur(const Node& node, const Padded& padded, std::vector<Node>& to) {
    Node made = node;
    for (NamedArgument& argument : made.arguments) {
      if (argument.name == "data") argument.value = padded.sequences;
      if (argument.name == "batch_sizes") argument.value = padded.lengths;
    }
    const auto* x = padded.sequences.as<ValueRef>();
    Type& type = program_.values[node.outputs[0]].type;
    const auto& dims = program_.values[x->id].type.dims;
    if (dims && type.dims && dims->size() == 3) type.dims = {(*dims)[0], (*dims)[1], type.dims->back()};
    by_value_[node.outputs[0]] = padded;
    by_value_[node.outputs[0]].sequences = {ValueRef{node.outputs[0]}};
    to.push_back(std::move(made));
  }

  void pad(const Node& node, const Padded& padded, std::vector<Node>& to, Replacements& replaced) {
    const bool batch_first = known_flag(program_, *node.find("batch_first")).value_or(false);
    const Argument* total = node.find("total_length");
    const bool in_full = total != nullptr && (total->as<ValueRef>() != nullptr || known_integer(program_, *total) > 0);
    const Argument count = in_full ? *total : longest(node, padded, to, none_id);
    const Argument sequences = in_full ? lengthened(node, padded, count, to) : padded.sequences;
    Type type = program_.values[padded.sequences.as<ValueRef>()->id].type;
    if (type.dims && !type.dims->empty()) type.dims->front() = {type.dims->front().size, true, none_id};
    if (const auto known = in_full ? known_integer(program_, count) : std::nullopt; known && type.dims)
      type.dims->front() = {*known, false, none_id};
    Type& declared = program_.values[node.outputs[0]].type;
    declared = type;
    if (batch_first && declared.dims) std::swap((*declared.dims)[0], (*declared.dims)[1]);
    std::vector<NamedArgument> slice{{"self", sequences},
                                     {"dim", {std::int64_t{0}}},
                                     {"start", {std::int64_t{0}}},
                                     {"end", count},
                                     {"step", {std::int64_t{1}}}};
    const Argument cut =
        add(node, "aten::slice", "Tensor", std::move(slice), type, to, batch_first ? none_id : node.outputs[0]);
    if (batch_first) swapped(node, cut, to, node.outputs[0]);
    replaced.emplace(node.outputs[1], padded.lengths);
  }

  // Pads to at least `total` steps: PyTorch accepts any total_length not below the longest sequence.
  Argument lengthened(const Node& node, const Padded& padded, const Argument& total, std::vector<Node>& to) {
    Type type = program_.values[padded.sequences.as<ValueRef>()->id].type;
    const bool known = type.dims && !type.dims->empty() && type.dims->front().is_static();
    if (known && known_integer(program_, total) <= type.dims->front().size) return padded.sequences;
    if (counts_input(total, padded)) return padded.sequences;
    if (type.dims && !type.dims->empty()) type.dims->front() = {type.dims->front().size, true, none_id};
    const ArgumentList amounts{{std::int64_t{0}}, {std::int64_t{0}}, {std::int64_t{0}},
                               {std::int64_t{0}}, {std::int64_t{0}}, total};
    return add(node, "aten::constant_pad_nd", "",
               {{"self", padded.sequences}, {"pad", {amounts}}, {"value", {std::int64_t{0}}}}, type, to);
  }

  bool counts_input(const Argument& total, const Padded& padded) const {
    const auto* value = total.as<ValueRef>();
    const auto found = value == nullptr ? length_.end() : length_.find(value->id);
    return found != length_.end() && found->second == std::pair(padded.input, padded.time_axis);
  }

  void count(const Node& node, const Padded& padded, std::vector<Node>& to) {
    const Argument size = add(node, "aten::size", "int", {{"self", padded.sequences}, {"dim", {std::int64_t{1}}}},
                              {ValueKind::integer, DType::int64, std::nullopt}, to);
    add(node, "prim::NumToTensor", "Scalar", {{"a", size}}, program_.values[node.outputs[0]].type, to, node.outputs[0]);
  }

  // Swaps the first two axes.
  Argument swapped(const Node& replaced_node, const Argument& x, std::vector<Node>& to, ValueId output) {
    Type type = program_.values[x.as<ValueRef>()->id].type;
    if (type.dims && type.dims->size() > 1) std::swap((*type.dims)[0], (*type.dims)[1]);
    return add(replaced_node, "aten::transpose", "int",
               {{"self", x}, {"dim0", {std::int64_t{0}}}, {"dim1", {std::int64_t{1}}}}, type, to, output);
  }

  // Adds a node that replaces `replaced_node`; without `output` its result is a new value.
  Argument add(const Node& replaced_node, const char* target, const char* overload,
               std::vector<NamedArgument> arguments, Type type, std::vector<Node>& to, ValueId output = none_id) {
    if (output == none_id) {
      output = ValueId(program_.values.size());
      Value value;
      value.name = "sequences." + std::to_string(output.number());
      program_.values.push_back(std::move(value));
    }
    program_.values[output].type = std::move(type);
    Node node;
    node.target = target;
    node.overload = overload;
    node.arguments = std::move(arguments);
    node.origin = replaced_node.origin;
    node.outputs = {output};
    to.push_back(std::move(node));
    return {ValueRef{output}};
  }

  Program& program_;
  bool understood_ = true;
  std::unordered_set<ValueId> data_, sizes_;                              // packed values
  std::unordered_map<ValueId, std::pair<ValueId, std::int64_t>> length_;  // size -> its (value, axis)
  std::unordered_map<ValueId, Padded> by_value_;
};

}  // namespace

void pad_packed_sequences(Lowering& lowering) {
  if (!program::any_node(lowering.program.body, packs)) return;
  drop_dead_code(lowering);  // scripted layers read sizes of their inputs that nothing uses
  PackedSequences(lowering).run();
}

}  // namespace whence::lower
