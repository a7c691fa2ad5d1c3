#include "annotator/app/recover_weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "annotator/app/derived_file.h"
#include "annotator/app/separate_files.h"
#include "annotator/checkpoint/safetensors.h"
#include "annotator/derivation/dequantise.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/invert.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/files/output_files.h"
#include "schema/printable.h"

namespace whence::app {
namespace {

using derivation::Derivation;
using derivation::Expression;
using derivation::of_floats;
using derivation::ParameterPiece;
using derivation::ParameterStep;
using derivation::QuantisedBias;
using derivation::QuantisedWeight;
using derivation::QuantiseStep;
using derivation::TensorNumber;

// How a parameter was recovered. Later kinds are used only where no earlier one is complete.
enum class Origin : std::uint8_t { stored, dequantised, split, neutral };

// A tensor of the file that holds elements of a parameter.
struct Source {
  TensorNumber tensor = derivation::no_tensor;
  std::size_t piece = 0;  // of the inverted expression
  Origin origin = Origin::stored;
  DType dtype = DType::float32;
  bool is_complete = true;
};

struct Parameter {
  std::vector<std::int64_t> dims;
  std::vector<Source> sources = {};  // of a complete parameter, each element is in one of them; the first is preferred
  Origin origin = Origin::stored;
  DType dtype = DType::float32;
};

TensorData ones(std::vector<std::int64_t> dims) {
  std::string bytes(static_cast<std::size_t>(element_count(dims)), '\1');
  return {DType::boolean, std::move(dims), Bytes::owned(std::move(bytes))};
}

// Returns the expression before its last quantisation.
const Expression& source_of(const Expression& expression) {
  const bool is_quantised = std::holds_alternative<QuantiseStep>(expression.step) ||
                            std::holds_alternative<derivation::QuantiseBiasStep>(expression.step);
  return is_quantised && !expression.inputs.empty() ? expression.inputs[0] : expression;
}

// Returns true if no parameter of the expression has equals: each gets numbers of its own.
bool is_certain(const Expression& expression) {
  bool certain = true;
  for_each_parameter(expression, [&](const ParameterStep& step) { certain = certain && step.equals.empty(); });
  return certain;
}

class Recovery {
 public:
  Recovery(DerivedFile file, bool splits_norms) : file_(std::move(file)), splits_norms_(splits_norms) {
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      if (file_.derivations[i].expression) add(static_cast<TensorNumber>(i), *file_.derivations[i].expression);
    }
    for (auto& [name, parameter] : parameters_) choose_sources(name, parameter);
    std::erase_if(parameters_, [](const auto& entry) { return entry.second.sources.empty(); });
    drop_incomplete_folds();
    add_missing();
  }

  RecoverReport report() const {
    RecoverReport report{.several_forms = several_forms_, .missing = missing_};
    for (const auto& [name, reason] : missing_) {
      if (parameters_.contains(name)) report.missing.erase(name);
    }
    const auto rename = [&](std::vector<std::string>& names) {
      for (std::string& name : names) name = name_in_checkpoint(name);
    };
    rename(report.several_forms);
    std::map<std::string, std::string> missing;
    for (auto& [name, reason] : report.missing) missing.emplace(name_in_checkpoint(name), std::move(reason));
    report.missing = std::move(missing);
    for (const auto& [name, parameter] : parameters_) {
      auto& list = parameter.origin == Origin::stored        ? report.stored
                   : parameter.origin == Origin::dequantised ? report.dequantised
                                                             : report.equivalent;
      list.push_back(name_in_checkpoint(name));
    }
    for (const AbsentParameter& absent : file_.absent) {
      if (missing_.contains(absent.name)) continue;
      (is_elsewhere(absent) ? report.elsewhere : report.left_out).push_back(name_in_checkpoint(absent.name));
    }
    return report;
  }

  // Returns the parameters, whose bytes are computed when they are written: one tensor at a time is in memory.
  std::vector<checkpoint::CheckpointTensor> tensors() const {
    std::vector<checkpoint::CheckpointTensor> tensors;
    for (const auto& [name, parameter] : parameters_) {
      const std::size_t size = static_cast<std::size_t>(element_count(parameter.dims)) * size_of(parameter.dtype);
      const auto make = [this, &parameter = parameter] { return value(parameter).bytes; };
      tensors.push_back({.name = name_in_checkpoint(name),
                         .data = {parameter.dtype, parameter.dims, Bytes::computed_when_written(size, make)}});
    }
    for (const AbsentParameter& absent : file_.absent) {
      if (missing_.contains(absent.name) || is_elsewhere(absent)) continue;
      const auto numbers = std::vector(static_cast<std::size_t>(element_count(absent.dims)), *absent.number);
      const TensorData in_double{DType::float64, absent.dims,
                                 Bytes::copy_of(numbers.data(), numbers.size() * sizeof(double))};
      tensors.push_back(
          {.name = name_in_checkpoint(absent.name), .data = program::cast_tensor(in_double, absent.dtype).value()});
    }
    return tensors;
  }

 private:
  bool is_of_program(const std::string& name) const {
    return std::ranges::any_of(file_.program->parameters, [&](const whence::Parameter& each) {
      return each.name == name || std::ranges::find(each.aliases, name) != each.aliases.end();
    });
  }

  // Returns true for a parameter of another part of the checkpoint's model than the one that was recorded. If no name
  // of the checkpoint is in the program, nothing is known about its parts.
  bool is_elsewhere(const AbsentParameter& absent) const {
    return file_.program && !is_of_program(absent.name) &&
           std::ranges::any_of(parameters_, [&](const auto& each) { return is_of_program(each.first); });
  }

  std::string name_in_checkpoint(const std::string& name) const {
    return file_.program && is_of_program(name) ? file_.prefix + name : name;
  }

  void add(TensorNumber number, const Expression& expression) {
    const auto* step = std::get_if<QuantiseStep>(&expression.step);
    const auto* bias = std::get_if<derivation::QuantiseBiasStep>(&expression.step);
    const bool is_scale =
        step != nullptr ? step->part != QuantiseStep::Part::integers : bias != nullptr && bias->is_scale;
    if (is_scale) return;
    const Expression& source = source_of(expression);
    std::string reason = obstacle(source);
    if (has_fold(source) && !splits_norms_) reason = "a norm was folded into it (--split-norms gives equivalent ones)";
    if (has_fold(source) && !is_certain(source)) reason = "its norm cannot be told from an equal one";
    const bool is_quantised = &source != &expression;
    if (is_quantised && reason.empty() && !can_dequantise(number)) reason = "its scales are not in the file";
    bool is_computed = false;
    for_each_parameter(source, [&](const ParameterStep& step) { is_computed = is_computed || step.is_computed(); });
    if (is_computed) reason = "the file holds what the program computes from it";
    if (!reason.empty()) {
      for_each_parameter(expression, [&](const ParameterStep& step) {
        for_each_name(step, [&](const std::string& name) { missing_.emplace(name, reason); });
      });
      return;
    }
    const DType dtype =
        is_quantised || has_fold(source) ? DType::float32 : from_onnx(file_.tensors->all()[number].tensor->data_type);
    const bool is_complete = holds_all(source);
    const std::vector<ParameterPiece> pieces = inverted(source, form_of(source));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Origin origin = pieces[i].is_neutral ? Origin::neutral
                            : has_fold(source)   ? Origin::split
                            : is_quantised       ? Origin::dequantised
                                                 : Origin::stored;
      const ParameterStep& step_of_piece = *pieces[i].parameter;
      std::vector<std::string> names = step_of_piece.equals;
      names.push_back(step_of_piece.name);
      for (const std::string& name : names) {
        Parameter& parameter = parameters_.try_emplace(name, Parameter{step_of_piece.dims}).first->second;
        // A statement may be of any content.
        if (parameter.dims != step_of_piece.dims) continue;
        parameter.sources.push_back({number, i, origin, dtype, is_complete});
      }
    }
  }

  // Returns a tensor with the sizes of an expression that costs little: which of its elements exist.
  TensorData form_of(const Expression& expression) const {
    const std::vector<std::int64_t> dims = dims_of(expression);
    if (!has_fold(expression)) return ones(dims);
    return of_floats(std::vector<float>(static_cast<std::size_t>(element_count(dims)), 1.0F), dims);
  }

  // A norm and its product have other numbers only together: without one of them, the others are wrong.
  void drop_incomplete_folds() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (const Derivation& each : file_.derivations) {
        if (!each.expression || !has_fold(*each.expression)) continue;
        std::set<std::string> names;
        for_each_parameter(*each.expression, [&](const ParameterStep& step) { names.insert(step.name); });
        const auto is_known = [&](const std::string& name) { return parameters_.contains(name); };
        if (std::ranges::all_of(names, is_known)) continue;
        for (const std::string& name : names) {
          if (parameters_.erase(name) == 0) continue;
          missing_.emplace(name, "a part of the norm that was folded into it, or of its product, is missing");
          changed = true;
        }
      }
    }
  }

  // Adds the parameters that no tensor gives. Exporters leave out what has no effect: zeros that are added, ones that
  // are multiplied. In a file with tensors of unknown origin, these may be made from it.
  void add_missing() {
    const bool all_known = std::ranges::none_of(
        file_.derivations, [](const Derivation& each) { return each.verdict == derivation::Verdict::unaccounted; });
    for (const AbsentParameter& absent : file_.absent) {
      if (is_elsewhere(absent)) continue;
      // A norm counts its batches, for training alone.
      const bool is_counter = is_integral(absent.dtype) && absent.dims.empty() && absent.number;
      const bool is_neutral = absent.number && (*absent.number == 0 || *absent.number == 1);
      if (is_counter || (is_neutral && all_known && program::has_number_form(absent.dtype))) continue;
      missing_.emplace(absent.name, "the file does not hold it");
    }
    for (const Derivation& each : file_.derivations) {
      if (!each.expression) continue;
      for_each_parameter(*each.expression, [&](const ParameterStep& step) {
        for_each_name(step, [&](const std::string& name) {
          if (!parameters_.contains(name)) missing_.emplace(name, "the file does not hold it");
        });
      });
    }
  }

  // Returns true if all sources give the same numbers.
  bool agree(const std::vector<Source>& sources) const {
    const TensorData first = piece(sources[0], DType::float32);
    return std::ranges::all_of(sources, [&](const Source& each) {
      return derivation::text_of(piece(each, DType::float32)) == derivation::text_of(first);
    });
  }

  // Keeps the best source that is complete, or else all that together hold each element.
  void choose_sources(const std::string& name, Parameter& parameter) {
    std::vector<Source>& sources = parameter.sources;
    const auto is_changed = [](const Source& source) { return source.origin > Origin::dequantised; };
    if (sources.size() > 1 && std::ranges::any_of(sources, is_changed) && !agree(sources)) {
      missing_.emplace(name, "the file holds it in several forms, and a norm was folded into one of them");
      sources.clear();
      return;
    }
    if (std::ranges::count(sources, true, &Source::is_complete) > 1 &&
        std::ranges::any_of(sources, [&](const Source& each) { return each.origin != sources[0].origin; })) {
      several_forms_.push_back(name);
    }
    const auto rank = [](const Source& source) {
      return std::tuple(source.origin, !source.is_complete, source.dtype != DType::float32);
    };
    std::ranges::stable_sort(sources, {}, rank);
    const auto complete = std::ranges::find(sources, true, &Source::is_complete);
    if (complete != sources.end()) {
      sources = {Source(*complete)};
    } else if (!covers(parameter)) {
      missing_.emplace(name, "the file holds a part of it");
      sources.clear();
      return;
    }
    for (const Source& source : sources) parameter.origin = std::max(parameter.origin, source.origin);
    parameter.dtype = sources[0].dtype;
    if (!std::ranges::all_of(sources, [&](const Source& each) { return each.dtype == parameter.dtype; })) {
      parameter.dtype = DType::float32;
    }
  }

  // Returns which elements of a parameter a tensor holds.
  TensorData mask(const Source& source) const {
    const Expression& expression = source_of(*file_.derivations[static_cast<std::size_t>(source.tensor)].expression);
    return std::move(inverted(expression, ones(dims_of(expression))).at(source.piece).data);
  }

  bool covers(const Parameter& parameter) const {
    if (std::ranges::any_of(parameter.sources, [](const Source& each) { return each.origin > Origin::dequantised; })) {
      return false;
    }
    std::string known(static_cast<std::size_t>(element_count(parameter.dims)), '\0');
    for (const Source& source : parameter.sources) {
      const TensorData holds = mask(source);
      const std::string_view held = derivation::text_of(holds);
      for (std::size_t i = 0; i < known.size(); ++i) known[i] = static_cast<char>(known[i] | held[i]);
    }
    return known.find('\0') == std::string::npos;
  }

  TensorData value(const Parameter& parameter) const {
    if (parameter.sources.size() == 1) return piece(parameter.sources[0], parameter.dtype);
    const std::size_t size = size_of(parameter.dtype);
    std::string bytes(static_cast<std::size_t>(element_count(parameter.dims)) * size, '\0');
    for (auto source = parameter.sources.rbegin(); source != parameter.sources.rend(); ++source) {
      const TensorData data = piece(*source, parameter.dtype), holds = mask(*source);
      const std::string_view from = derivation::text_of(data), held = derivation::text_of(holds);
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (held[i] != 0) from.copy(bytes.data() + i * size, size, i * size);
      }
    }
    return {parameter.dtype, parameter.dims, Bytes::owned(std::move(bytes))};
  }

  TensorData piece(const Source& source, DType dtype) const {
    const Expression& expression = *file_.derivations[static_cast<std::size_t>(source.tensor)].expression;
    const Expression& before = source_of(expression);
    TensorData tensor = &before == &expression ? file_.contents->data((*file_.tensors)[source.tensor])
                                               : dequantised(source.tensor, before);
    if (tensor.dtype != dtype) tensor = program::cast_tensor(tensor, dtype).value();
    tensor.shape = dims_of(before);
    return std::move(inverted(before, std::move(tensor)).at(source.piece).data);
  }

  const QuantisedWeight* weight_of(TensorNumber number) const {
    const auto& weights = file_.tensors->quantised();
    const auto found = std::ranges::find(weights, number, &QuantisedWeight::integers);
    return found == weights.end() ? nullptr : &*found;
  }
  const QuantisedBias* bias_of(TensorNumber number) const {
    const auto& biases = file_.tensors->biases();
    const auto found = std::ranges::find(biases, number, &QuantisedBias::integers);
    return found == biases.end() ? nullptr : &*found;
  }
  bool can_dequantise(TensorNumber number) const {
    const QuantisedWeight* const weight = weight_of(number);
    return weight != nullptr ? weight->scales != derivation::no_tensor : bias_of(number) != nullptr;
  }

  TensorData dequantised(TensorNumber number, const Expression& source) const {
    const QuantisedWeight* const weight = weight_of(number);
    const auto numbers = weight != nullptr ? derivation::dequantised(*file_.tensors, *file_.contents, *weight)
                                           : derivation::dequantised(*file_.tensors, *file_.contents, *bias_of(number));
    const std::vector<std::int64_t> dims = dims_of(source);
    if (!numbers || element_count(numbers->dims) != element_count(dims)) {
      throw Error(Code::corrupt_file, "a quantised weight does not fit its scales", "export or download the file again",
                  {.stage = "weights"});
    }
    std::vector<float> values(static_cast<std::size_t>(element_count(dims)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(numbers->number(static_cast<std::int64_t>(i)));
    }
    return of_floats(values, dims);
  }

  DerivedFile file_;
  bool splits_norms_;
  std::map<std::string, Parameter> parameters_;
  std::map<std::string, std::string> missing_;
  std::vector<std::string> several_forms_;
};

// torch.load and other readers choose the form of a file by its name.
void require_safetensors(const std::string& path) {
  if (path.empty() || path.ends_with(".safetensors")) return;
  throw Error(Code::usage, "the state dict is written as safetensors, and '" + printable(path) + "' has another ending",
              "choose a name that ends with .safetensors; for a file of torch.save: "
              "torch.save(safetensors.torch.load_file(...), ...)",
              {.stage = "command line"});
}

void require_new(const std::string& path) {
  if (path.empty() || !std::filesystem::exists(path)) return;
  throw Error(Code::cannot_write, "the file exists", "choose another name, or pass --overwrite to replace it",
              {.file = path, .stage = "write"});
}

}  // namespace

RecoverReport recover_weights(const std::string& model, const RecoverOptions& options) {
  const std::vector<NamedFile> inputs = {{"the model", model},
                                         {"--base", options.base},
                                         {"--statement", options.statement},
                                         {"the sidecar", options.sidecar}};
  require_safetensors(options.output);
  require_separate(inputs, {{"--output", options.output}}, "");
  if (!options.overwrite) require_new(options.output);
  Diagnostics notes;
  const Recovery recovery(derived_file(model, {options.base, options.sidecar}, options.statement, notes),
                          options.splits_norms);
  RecoverReport report = recovery.report();
  report.notes = std::move(notes);
  if (options.output.empty()) return report;
  OutputFiles files;
  AtomicFile& to = files.add(options.output);
  if (!options.overwrite) to.require_new_target();
  checkpoint::write_safetensors(recovery.tensors(), to);
  files.commit();
  return report;
}

}  // namespace whence::app
