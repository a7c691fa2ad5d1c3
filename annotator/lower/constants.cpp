// mask = tril(ones(8, 8)); y = f(x, mask)   ->   y = f(x, <constant>)
// Replaces values with their content: every value that PyTorch could compute at export if it is worth storing
// (schema/folding.h), and every tensor that never has an element. Nothing needs to compute such a tensor, and runtimes
// disagree on the result of reducing or reshaping an empty tensor.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "annotator/convert/op_table.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/folding.h"
#include "schema/program_walk.h"

namespace whence::lower {
namespace {

bool always_empty(const Type& type) {
  if (type.kind != ValueKind::tensor || !type.dims || type.dtype == DType::undefined) return false;
  return std::ranges::all_of(*type.dims, &Dim::is_static) &&
         std::ranges::any_of(*type.dims, [](const Dim& dim) { return dim.size == 0; });
}

void note_empty_results(Program& program) {
  each_node(program.body, [&](const Node& node) {
    for (const ValueId output : node.outputs) {
      Value& value = program.values[output];
      if (!node.blocks.empty() || value.known != none_id || !always_empty(value.type)) continue;
      TensorData nothing{value.type.dtype, {}, {}};
      for (const Dim& dim : *value.type.dims) nothing.shape.push_back(dim.size);
      value.known = program.constants.add({std::move(nothing), {}, {node.origin.op}});
    }
  });
}

// A known tensor, and the parameters and constants that it was computed from.
struct Candidate {
  ValueId value = none_id;
  std::uint64_t bytes = 0;
  std::vector<ValueId> made_of;
};

// Decides which known tensors stay computations: tensors that would make the file larger, or all of them if folding is
// off. Numbers and flags are always folded: they are sizes, axes and conditions.
class Unfolding {
 public:
  explicit Unfolding(Program& program) : program_(program) {
    for (const Parameter& each : program.parameters) model_bytes_ += each.data.bytes.size();
    each_node(program.body, [&](const Node& node) {
      for (const ValueId output : node.outputs) producers_[output] = &node;
    });
    for (const ValueId id : program.values.keys()) {
      if (program.values[id].known == none_id || !producers_.contains(id)) continue;
      folded_.insert(id);
      if (program.values[id].type.kind == ValueKind::tensor) add_candidate(id);
    }
  }

  void unfold_all() {
    for (const Candidate& each : candidates_) unfold(each.value);
  }

  // Repeats until nothing changes: a tensor that stays computed may read a parameter that could otherwise be dropped.
  void unfold_growing() {
    std::erase_if(candidates_, [](const Candidate& each) { return each.bytes <= always_folded; });
    while (true) {
      const std::vector<ValueId> growing = larger_than_allowed();
      if (growing.empty()) return;
      for (const ValueId id : growing) unfold(id);
      std::erase_if(candidates_, [&](const Candidate& each) { return !folded_.contains(each.value); });
    }
  }

 private:
  void unfold(ValueId id) {
    folded_.erase(id);
    program_.values[id].known = none_id;
  }

  void add_candidate(ValueId id) {
    Candidate candidate{id, program_.constants[program_.values[id].known].data.bytes.size(), {}};
    std::unordered_set<ValueId> seen;
    std::vector<ValueId> pending{id};
    while (!pending.empty()) {
      const ValueId at = pending.back();
      pending.pop_back();
      if (!seen.insert(at).second) continue;
      const auto producer = producers_.find(at);
      if (producer == producers_.end()) {
        const ValueSource source = program_.values[at].source;
        if (source == ValueSource::parameter || source == ValueSource::constant) candidate.made_of.push_back(at);
        continue;
      }
      // An operator without a converter cannot be computed by nodes, so its result stays folded.
      if (convert::OpTable::get().find(qualified(*producer->second)) == nullptr) return;
      each_operand(*producer->second, [&](ValueId input) { pending.push_back(input); });
    }
    candidates_.push_back(std::move(candidate));
  }

  // Returns the folded tensors that cost more bytes than they save. A parameter is dropped if only folded tensors read
  // it; if several share it, each counts its share of the bytes.
  std::vector<ValueId> larger_than_allowed() const {
    if (candidates_.empty()) return {};
    const std::unordered_set<ValueId> read = values_read_by_nodes();
    std::unordered_map<ValueId, std::uint64_t> sharing;
    for (const Candidate& each : candidates_) {
      for (const ValueId id : each.made_of) ++sharing[id];
    }
    std::vector<ValueId> found;
    for (const Candidate& each : candidates_) {
      FoldedConstants from{.model_bytes = model_bytes_};
      for (const ValueId id : each.made_of) {
        const TensorData& data = data_of(id);
        from.add(data, read.contains(id) ? 0 : data.bytes.size() / sharing[id]);
      }
      if (each.bytes > max_folded_bytes(from)) found.push_back(each.value);
    }
    return found;
  }

  const TensorData& data_of(ValueId id) const {
    const Value& value = program_.values[id];
    return value.source == ValueSource::parameter ? program_.parameters[ParameterId(value.index)].data
                                                  : program_.constants[ConstantId(value.index)].data;
  }

  // Returns the values read by remaining nodes and by outputs of the program.
  std::unordered_set<ValueId> values_read_by_nodes() const {
    std::unordered_set<ValueId> read;
    std::unordered_set<const Node*> seen;
    std::vector<ValueId> pending;
    const auto note = [&](ValueId id) { pending.push_back(id); };
    for (const ProgramOutput& output : program_.outputs) each_value(output.value, note);
    while (!pending.empty()) {
      const ValueId at = pending.back();
      pending.pop_back();
      if (folded_.contains(at)) continue;
      const auto producer = producers_.find(at);
      if (producer == producers_.end()) {
        read.insert(at);
      } else if (seen.insert(producer->second).second) {
        each_operand(*producer->second, note);
        for (const Block& block : producer->second->blocks) each_value_read(block, note);
      }
    }
    return read;
  }

  Program& program_;
  std::uint64_t model_bytes_ = 0;
  std::unordered_map<ValueId, const Node*> producers_;
  std::unordered_set<ValueId> folded_;
  std::vector<Candidate> candidates_;
};

}  // namespace

void use_constants(Lowering& lowering) {
  Unfolding unfolding(lowering.program);
  lowering.fold ? unfolding.unfold_growing() : unfolding.unfold_all();
  note_empty_results(lowering.program);
  for (Value& value : lowering.program.values) {
    if (value.known == none_id || value.source == ValueSource::parameter) continue;
    value.source = ValueSource::constant;
    value.index = value.known.number();
  }
}

}  // namespace whence::lower
