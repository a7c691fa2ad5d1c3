#include "annotator/validation/parameter_fates.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/external_bytes.h"
#include "annotator/validation/walk.h"
#include "schema/element_count.h"
#include "schema/program_walk.h"

namespace whence::validation {

namespace {

// The operations that use a parameter.
struct Readers {
  std::array<bool, fate_count> by{};
  bool needed = false;
  std::vector<std::int32_t> arrived = {};  // operations with a node of their own

  bool any(Fate fate) const { return by[static_cast<std::size_t>(fate)]; }
};

template <class Visit>
void visit_parameters(const Program& program, const Argument& argument, const Visit& visit) {
  each_value(argument, [&](ValueId id) {
    if (id.exists() && program.values[id].source == ValueSource::parameter)
      visit(ParameterId(program.values[id].index));
  });
}

IndexedVector<ParameterId, Readers> readers_of(const Program& program, const std::vector<OperationFate>& operations) {
  IndexedVector<ParameterId, Readers> readers(program.parameters.size());
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const OperationFate& operation = operations[i];
    if (operation.reason == Elimination::unused) continue;
    for (const NamedArgument& argument : operation.operation->arguments) {
      visit_parameters(program, argument.value, [&](ParameterId parameter) {
        readers[parameter].by[static_cast<std::size_t>(operation.fate)] = true;
        readers[parameter].needed = true;
        if (operation.fate == Fate::arrived) readers[parameter].arrived.push_back(static_cast<std::int32_t>(i));
      });
    }
  }
  for (const ProgramOutput& output : program.outputs) {
    visit_parameters(program, output.value, [&](ParameterId parameter) { readers[parameter].needed = true; });
  }
  return readers;
}

class Initializers {
 public:
  Initializers(const onnx_file::OnnxSummary& model, const std::string& path) : external_(path) {
    walk_graphs(model, [&](const onnx_file::OnnxGraph& graph) {
      for (const onnx_file::OnnxTensor& tensor : graph.initializers) tensors_.push_back({&tensor});
      for (const onnx_file::OnnxValue& input : graph.inputs) inputs_.insert(input.name);
    });
    for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].tensor->name, i);
  }

  struct Entry {
    const onnx_file::OnnxTensor* tensor = nullptr;
    bool claimed = false;
    std::string digest = {};
  };

  Entry* named(std::string_view name) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  bool is_input(std::string_view name) const { return inputs_.count(name) > 0; }
  std::vector<Entry>& all() { return tensors_; }

  // Returns the digest of the bytes in the file; empty if they are in typed fields or cannot be read (checks report
  // that).
  const std::string& digest(Entry& entry) {
    if (!entry.digest.empty()) return entry.digest;
    try {
      const std::string_view bytes = entry.tensor->external ? external_.of(*entry.tensor) : entry.tensor->raw;
      if (!bytes.empty()) entry.digest = digest_of(bytes.data(), bytes.size());
    } catch (const Error&) {
      entry.digest.clear();
    }
    return entry.digest;
  }

 private:
  onnx_file::ExternalBytes external_;
  std::vector<Entry> tensors_;
  std::set<std::string_view> inputs_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

class ParameterSearch {
 public:
  ParameterSearch(const CheckContext& context, const std::string& path, const std::vector<OperationFate>& operations)
      : context_(context),
        program_(*context.program),
        readers_(readers_of(program_, operations)),
        initializers_(context.model, path) {
    fates_.resize(program_.parameters.size());
    for (const ParameterId id : fates_.keys()) fates_[id].parameter = &program_.parameters[id];
  }

  ParameterFates run() {
    std::vector<ParameterId> unmatched;
    for (const ParameterId id : fates_.keys()) {
      if (!by_name(id)) unmatched.push_back(id);
    }
    by_content(unmatched);
    std::erase_if(unmatched, [&](ParameterId id) { return fates_[id].arrival == Arrival::content; });
    for (const ParameterId id : unmatched) fates_[id].arrival = reason(readers_[id]);
    by_shape(unmatched);
    by_reader(unmatched);
    return std::move(fates_);
  }

 private:
  bool by_name(ParameterId id) {
    const Parameter& parameter = program_.parameters[id];
    std::vector<std::string_view> names = {parameter.name};
    names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
    for (const std::string_view name : names) {
      Initializers::Entry* const entry = initializers_.named(name);
      if (entry == nullptr && !initializers_.is_input(name)) continue;
      fates_[id].arrival = Arrival::name;
      if (entry != nullptr) entry->claimed = true;
      // An initializer computed from the parameter may have its name: weight_g and weight_v are folded into weight.
      if (entry != nullptr && only_folded(readers_[id]) && !has_bytes(parameter, initializers_.digest(*entry))) {
        fates_[id].arrival = Arrival::folded;
      }
      return true;
    }
    return false;
  }

  static bool only_folded(const Readers& readers) {
    return readers.any(Fate::folded) && !readers.any(Fate::arrived) && !readers.any(Fate::fused) &&
           !readers.any(Fate::unknown);
  }

  static bool has_bytes(const Parameter& parameter, const std::string& digest) {
    return !digest.empty() && (digest == parameter.digests.content || digest == parameter.digests.transposed ||
                               digest == parameter.digests.float16 || digest == parameter.digests.bfloat16);
  }

  // Skips single numbers: their bytes are not distinctive.
  void by_content(const std::vector<ParameterId>& unmatched) {
    std::multimap<std::string_view, ParameterId> by_digest;
    std::set<std::int64_t> counts;
    for (const ParameterId id : unmatched) {
      const Parameter& parameter = program_.parameters[id];
      if (element_count(parameter.data.shape) < 2) continue;
      counts.insert(element_count(parameter.data.shape));
      for (const std::string* digest : {&parameter.digests.content, &parameter.digests.transposed,
                                        &parameter.digests.float16, &parameter.digests.bfloat16}) {
        if (!digest->empty()) by_digest.emplace(*digest, id);
      }
    }
    for (Initializers::Entry& entry : initializers_.all()) {
      if (entry.claimed || counts.count(element_count(entry.tensor->dims)) == 0) continue;
      const auto [first, last] = by_digest.equal_range(initializers_.digest(entry));
      for (auto found = first; found != last; ++found) {
        fates_[found->second].arrival = Arrival::content;
        fates_[found->second].initializer = std::string(entry.tensor->name);
        entry.claimed = true;
      }
    }
  }

  static Arrival reason(const Readers& readers) {
    if (!readers.needed) return Arrival::unused;
    if (readers.any(Fate::arrived) || readers.any(Fate::unknown)) return Arrival::missing;
    if (readers.any(Fate::fused)) return Arrival::fused;
    if (readers.any(Fate::folded)) return Arrival::folded;
    return readers.any(Fate::eliminated) ? Arrival::unused : Arrival::missing;
  }

  using Form = std::pair<DType, std::vector<std::int64_t>>;

  // Matches only parameters that should be in the file, and only if the choice is unique.
  void by_shape(const std::vector<ParameterId>& unmatched) {
    std::map<Form, std::vector<ParameterId>> by_form;
    std::map<Form, std::vector<Initializers::Entry*>> found;
    for (const ParameterId id : unmatched) {
      const bool may = fates_[id].arrival == Arrival::missing || fates_[id].arrival == Arrival::fused;
      const Parameter& parameter = program_.parameters[id];
      if (may && element_count(parameter.data.shape) > 1)
        by_form[{parameter.data.dtype, parameter.data.shape}].push_back(id);
    }
    for (Initializers::Entry& entry : initializers_.all()) {
      if (!entry.claimed) found[{from_onnx(entry.tensor->data_type), entry.tensor->dims}].push_back(&entry);
    }
    for (const auto& [form, parameters] : by_form) {
      const auto entries = found.find(form);
      if (parameters.size() != 1 || entries == found.end() || entries->second.size() != 1) continue;
      fates_[parameters.front()].arrival = Arrival::shape;
      fates_[parameters.front()].initializer = std::string(entries->second.front()->tensor->name);
    }
  }

  // Returns the sizes in sorted order without 1: quantisers transpose and drop axes of size 1.
  static std::vector<std::int64_t> form_of(std::vector<std::int64_t> dims) {
    std::erase(dims, 1);
    std::ranges::sort(dims);
    return dims;
  }

  // Matches only inputs of nodes that represent exactly one operation, and only if the choice is unique.
  void by_reader(const std::vector<ParameterId>& unmatched) {
    std::map<std::int32_t, std::set<Initializers::Entry*>> read;  // by operation
    for (const onnx_file::OnnxNode* node : context_.nodes) {
      const metadata::Attribution attribution = metadata::attribution_of(*node, context_.recorded);
      if (!attribution.origin || attribution.origin->ops.size() != 1 ||
          attribution.confidence > origin::Confidence::matched) {
        continue;
      }
      for (const std::string_view input : node->inputs) {
        Initializers::Entry* const entry = initializers_.named(input);
        if (entry != nullptr && !entry->claimed) read[attribution.origin->ops.front()].insert(entry);
      }
    }
    using OperationAndSizes = std::pair<std::int32_t, std::vector<std::int64_t>>;
    std::map<OperationAndSizes, std::set<ParameterId>> by_operation;
    for (const ParameterId id : unmatched) {
      if (fates_[id].arrival != Arrival::missing || element_count(program_.parameters[id].data.shape) < 2) continue;
      for (const std::int32_t op : readers_[id].arrived)
        by_operation[{op, form_of(program_.parameters[id].data.shape)}].insert(id);
    }
    for (const auto& [key, parameters] : by_operation) {
      std::vector<Initializers::Entry*> fitting;
      for (Initializers::Entry* const entry : read[key.first]) {
        if (form_of(entry->tensor->dims) == key.second) fitting.push_back(entry);
      }
      if (parameters.size() != 1 || fitting.size() != 1) continue;
      ParameterFate& fate = fates_[*parameters.begin()];
      fate.arrival = Arrival::reader;
      fate.initializer = std::string(fitting.front()->tensor->name);
    }
  }

  const CheckContext& context_;
  const Program& program_;
  IndexedVector<ParameterId, Readers> readers_;
  Initializers initializers_;
  ParameterFates fates_;
};

}  // namespace

std::string_view name_of(Arrival arrival) {
  constexpr std::array<std::string_view, arrival_count> names = {"name",  "content", "shape",  "reader",
                                                                 "fused", "folded",  "unused", "missing"};
  return names[static_cast<std::size_t>(arrival)];
}

std::string_view text_of(Arrival arrival) {
  constexpr std::array<std::string_view, arrival_count> texts = {
      "kept, found by name",
      "kept, found by content",
      "kept, found by shape: the bytes changed",
      "kept, read by the node of its operation: the bytes changed",
      "merged: combined into other initializers, with the operations that read them",
      "merged: computed into constants",
      "no operation needs it",
      "missing: an operation that is, or may be, in the file reads it"};
  return texts[static_cast<std::size_t>(arrival)];
}

bool arrived(Arrival arrival) { return arrival <= Arrival::reader; }

ParameterFates parameter_fates(const CheckContext& context, const std::string& path,
                               const std::vector<OperationFate>& operations) {
  return ParameterSearch(context, path, operations).run();
}

}  // namespace whence::validation
