#include "annotator/app/refit.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "annotator/app/derived_file.h"
#include "annotator/app/separate_files.h"
#include "annotator/derivation/dequantise.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/low_rank_inputs.h"
#include "annotator/derivation/tied_adapter.h"
#include "annotator/derivation/unsaved_buffers.h"
#include "annotator/onnx_file/tensor_rewrite.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/printable.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {
namespace {

using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensor;
using derivation::ParameterStep;
using derivation::Verdict;
using derivation::Weights;

constexpr const char* tied_remedy =
    "merge the adapter with PEFT (merge_and_unload), which changes all, and pass the merged checkpoint with --weights";

class Refit {
 public:
  // `base`: the first checkpoint; null if it is not at hand.
  Refit(const DerivedFile& file, const Weights& weights, const Weights* base, const std::string& path)
      : file_(file), weights_(weights), base_(base), place_{.file = path, .stage = "refit"} {}

  // Keeps the scales and zero points of the file: integers are computed with them.
  void keep_scales() {
    for (const derivation::QuantisedWeight& weight : file_.tensors->quantised()) {
      const auto& expression = file_.derivations[static_cast<std::size_t>(weight.integers)].expression;
      const auto* const step = expression ? std::get_if<derivation::QuantiseStep>(&expression->step) : nullptr;
      if (step == nullptr) continue;
      auto groups = stored_groups(*file_.tensors, *file_.contents, weight);
      if (groups) scales_->emplace(scales_key(step->scheme, expression->inputs.at(0)), std::move(*groups));
    }
  }

  // Explains parameters that differ by an adapter.
  void explain_adapter() { is_adapted_ = true; }

  // Adds the products of an adapter as nodes.
  void add_products(const derivation::Adapter& adapter) {
    products_.emplace(*file_.model, *file_.tensors);
    for (const auto& [parameter, product] : adapter.products) {
      const std::string why = add_product(parameter, product);
      if (why.empty()) continue;
      refuse("the adapter's product for '" + printable(parameter) + "' cannot stand beside the file's: " + why,
             "merge it: without --lora-as-inputs");
    }
  }

  RefitReport check() {
    RefitReport report;
    if (products_) report.products = products_->count();
    std::set<std::string> used;
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      const Derivation& derivation = file_.derivations[i];
      const FileTensor& tensor = file_.tensors->all()[i];
      switch (derivation.verdict) {
        case Verdict::constant:
          ++report.constants;
          break;
        case Verdict::calibrated:
          ++report.calibrated;
          break;
        case Verdict::unaccounted:
          refuse("the origin of the tensor '" + printable(tensor.name) + "' is unknown" +
                     (derivation.remark.empty() ? "" : ": " + derivation.remark),
                 "`whence attest` lists what is known; export, optimise and quantise the new model instead");
          break;
        case Verdict::bounded:
          report.bounded.emplace_back(tensor.name);
          [[fallthrough]];
        case Verdict::exact:
          ++report.replaced;
          for_each_parameter(*derivation.expression,
                             [&](const ParameterStep& step) { check(step, tensor.name, used); });
      }
    }
    for (const AbsentParameter& absent : file_.absent) {
      const bool is_new = weights_.find(absent.name) != nullptr && absent.number &&
                          !has_all(weights_.value(absent.name), *absent.number);
      if (!is_new) continue;
      refuse("the file was made without the parameter '" + printable(absent.name) + "', which had no effect then",
             "export the new model instead");
    }
    for (std::size_t i = 0; i < weights_.tensors().size(); ++i) {
      const std::string& name = weights_.tensors()[i].name;
      if (!weights_.is_computed(i) && !used.contains(name)) report.unused.push_back(name);
    }
    refuse_hidden(report.unused);
    if (!problems_.empty()) throw Error(problems_);
    return report;
  }

  onnx_file::GraphAddition addition() {
    return products_ ? onnx_file::GraphAddition{&*products_, products_->graph_fields()} : onnx_file::GraphAddition{};
  }

  std::vector<onnx_file::NewTensor> new_tensors() const {
    std::vector<onnx_file::NewTensor> tensors;
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      const Derivation& derivation = file_.derivations[i];
      if (!derivation.expression || keeps_its_numbers(derivation)) continue;
      const FileTensor& tensor = file_.tensors->all()[i];
      tensors.push_back({tensor.tensor, [this, &tensor, &derivation] { return make(tensor, derivation); }});
    }
    return tensors;
  }

 private:
  // Returns true for a tensor that is known up to rounding and computed from buffers alone that no checkpoint has, such
  // as a table of angles: a new export gives the same bytes.
  bool keeps_its_numbers(const Derivation& derivation) const {
    if (derivation.verdict != Verdict::bounded) return false;
    bool is_of_checkpoint = false;
    for_each_parameter(*derivation.expression, [&](const ParameterStep& step) {
      for_each_name(step, [&](const std::string& name) { is_of_checkpoint |= weights_.find(name) != nullptr; });
    });
    return !is_of_checkpoint;
  }

  // A recording may hold numbers that were computed from buffers as constants. A parameter that the file does not hold,
  // with the number of elements of such a constant, must be the same in both checkpoints.
  void refuse_hidden(const std::vector<std::string>& unused) {
    std::map<std::int64_t, std::string_view> constants;
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      const FileTensor& tensor = file_.tensors->all()[i];
      const std::int64_t count = element_count(tensor.tensor->dims);
      const bool is_constant = file_.derivations[i].verdict == Verdict::constant && count > 1 &&
                               is_floating(from_onnx(tensor.tensor->data_type));
      if (is_constant) constants.emplace(count, tensor.name);
    }
    for (const std::string& name : unused) {
      const TensorData value = weights_.value(name);
      const auto constant = constants.find(value.element_count());
      if (constant == constants.end() || !is_floating(value.dtype)) continue;
      const TensorData* const before = base_ != nullptr ? base_->find(name) : nullptr;
      if (before != nullptr && derivation::text_of(*before) == derivation::text_of(value)) continue;
      refuse("the parameter '" + printable(name) +
                 "' is another one in the new checkpoint, and the file may hold what "
                 "was computed from it as the constant '" +
                 printable(constant->second) + "'",
             "export the new model instead; or record the model with torch.export");
    }
  }

  // Returns why the product cannot be added; "" if it was.
  std::string add_product(const std::string& parameter, const derivation::LowRank& product) {
    bool is_held = false;
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      const auto& expression = file_.derivations[i].expression;
      if (!expression || is_scale_or_zero(*expression)) continue;
      bool reads = false, is_shared = false;
      for_each_parameter(*expression, [&](const ParameterStep& step) {
        for_each_name(step, [&](const std::string& name) { reads = reads || name == parameter; });
        is_shared = is_shared || !step.equals.empty();
      });
      if (!reads) continue;
      is_held = true;
      const std::string tensor = "'" + printable(file_.tensors->all()[i].name) + "'";
      if (!is_whole_parameter(*expression)) return "the tensor " + tensor + " is computed from more than it";
      const std::int64_t before = products_->count();
      std::string why = products_->add(product, module_of(parameter), static_cast<derivation::TensorNumber>(i));
      if (!why.empty()) return why;
      if (is_shared && products_->count() > before + 1)
        return "the tensor " + tensor + " stands for several parameters";
    }
    return is_held ? "" : "no tensor of the file holds it";
  }

  // Scales depend on the weights, which stay; so do the integers of a bias, by the scale of its weight.
  static bool is_scale_or_zero(const Expression& expression) {
    if (std::holds_alternative<derivation::QuantiseBiasStep>(expression.step)) return true;
    const auto* const step = std::get_if<derivation::QuantiseStep>(&expression.step);
    return step != nullptr && step->part != derivation::QuantiseStep::Part::integers;
  }

  static std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

  Bytes make(const FileTensor& tensor, const Derivation& derivation) const {
    const TensorData data = evaluate(*derivation.expression, file_.sources(weights_, scales_));
    if (data.bytes.size() != derivation.bytes) {
      throw Error(Code::internal, "the new tensor '" + printable(tensor.name) + "' has another size",
                  "please report this with the files", place_);
    }
    const auto* const bias = std::get_if<derivation::QuantiseBiasStep>(&derivation.expression->step);
    if (bias != nullptr && !bias->is_scale) require_range(tensor, data);
    return data.bytes;
  }

  // A quantiser chooses the scale of a weight so that the bias fits. The file's scales were chosen for the old bias.
  void require_range(const FileTensor& tensor, const TensorData& data) const {
    const auto integers = program::Elements::of(data);
    for (std::size_t i = 0; i < integers->size(); ++i) {
      if (std::abs(integers->number(i)) < std::numeric_limits<std::int32_t>::max()) continue;
      throw Error(Code::weights_mismatch,
                  "the new bias '" + printable(tensor.name) + "' does not fit 32 bits with the file's scales",
                  "quantise the new model instead", place_);
    }
  }

  void check(const ParameterStep& step, std::string_view tensor, std::set<std::string>& used) {
    const TensorData* const found = weights_.find(step.name);
    if (found == nullptr || found->shape != step.dims) {
      if (!reported_.insert(step.name).second) return;
      if (found == nullptr && step.is_computed()) {
        refuse("the tensor '" + printable(tensor) + "' is computed by the program: " + step.recipe,
               "pass the sidecar of the model (--sidecar), and a checkpoint with these parameters");
        return;
      }
      refuse(found == nullptr ? "the new checkpoint has no parameter '" + printable(step.name) + "'"
                              : "the parameter '" + printable(step.name) + "' has other sizes in the new checkpoint",
             "pass a checkpoint of the same model; a model with other sizes must be exported");
      return;
    }
    if (is_floating(step.dtype) && !is_floating(found->dtype)) {
      refuse("the parameter '" + printable(step.name) + "' is " + std::string(name_of(found->dtype)) +
                 " in the new checkpoint, not floating point",
             "pass the checkpoint before it was quantised");
    }
    for_each_name(step, [&](const std::string& name) { used.insert(name); });
    for (const std::string& equal : step.equals) {
      const TensorData* const other = weights_.find(equal);
      const bool still_equal =
          other != nullptr && other->dtype == found->dtype &&
          derivation::text_of(weights_.value(equal)) == derivation::text_of(weights_.value(step.name));
      if (still_equal) continue;
      const int tied_reads = file_.program ? derivation::reads_of_tied(*file_.program, step.name, equal) : 0;
      // A checkpoint may have tied parameters under one of their names only.
      if (other == nullptr && tied_reads > 0) continue;
      const std::string stands_for = "the tensor '" + printable(tensor) + "' stands for the parameters '" +
                                     printable(step.name) + "' and '" + printable(equal) + "', which were equal";
      if (tied_reads > 1 && is_adapted_) {
        refuse(stands_for + "; they are one parameter of the model, which " + std::to_string(tied_reads) +
                   " operations read, and the adapter changes one of them",
               tied_remedy);
      } else {
        refuse(stands_for + " and no longer are",
               "export the new model; or refit a file whose nodes name their modules (whence annotate)");
      }
      return;
    }
  }

  void refuse(std::string message, std::string remedy) {
    problems_.push_back(
        Error(Code::weights_mismatch, std::move(message), std::move(remedy), place_).diagnostics().front());
  }

  const DerivedFile& file_;
  const Weights& weights_;
  const Weights* base_;
  bool is_adapted_ = false;
  Place place_;
  Diagnostics problems_;
  std::optional<derivation::LowRankInputs> products_;
  std::shared_ptr<derivation::KnownScales> scales_ = std::make_shared<derivation::KnownScales>();
  std::set<std::string> reported_;
};

// PEFT saves one setting for the orientation of all weights, but decides it for each module by its class.
void orient(derivation::Adapter& adapter, const Program& program) {
  for (const Module& module : program.modules) {
    const auto found = adapter.products.find(module.path + ".weight");
    if (found == adapter.products.end()) continue;
    if (module.type.ends_with("Conv1D")) found->second.transposed = true;
    if (module.type.ends_with(".Linear")) found->second.transposed = false;
  }
}

void require_untied(const std::vector<std::string>& problems, const std::string& adapter) {
  Diagnostics errors;
  for (const std::string& problem : problems) {
    const Error error(Code::weights_mismatch, problem, tied_remedy, {.file = adapter, .stage = "refit"});
    errors.push_back(error.diagnostics().front());
  }
  if (!errors.empty()) throw Error(errors);
}

}  // namespace

RefitReport refit(const std::string& model, const RefitOptions& options) {
  if (options.weights.empty() && (options.lora.empty() || options.base.empty())) {
    throw Error(Code::usage, "there are no new weights", "pass --weights with the new checkpoint, or --base and --lora",
                {.stage = "command line"});
  }
  if (options.lora_as_inputs && options.lora.empty()) {
    throw Error(Code::usage, "--lora-as-inputs without an adapter", "pass --lora with the adapter",
                {.stage = "command line"});
  }
  const std::vector<NamedFile> inputs = {
      {"the model", model},           {"--base", options.base}, {"--statement", options.statement},
      {"--weights", options.weights}, {"--lora", options.lora}, {"the sidecar", options.sidecar}};
  std::optional<onnx_file::ModelOutput> output;
  if (!options.output.empty()) {
    output = model_output(inputs, {"--output", options.output}, InPlace::refused, options.overwrite);
  }
  Diagnostics notes;
  DerivedFile file = derived_file(model, {options.base, options.sidecar}, options.statement, notes);
  if (!file.program && !options.sidecar.empty()) file.program = unwrap(read_sidecar(options.sidecar), notes).program;
  const Program* const program = file.program ? &*file.program : nullptr;
  Weights weights =
      Weights::read(options.weights.empty() ? options.base : options.weights, program, file.prefix, notes);
  derivation::Adapter adapter, inputs_of_adapter;
  if (!options.lora.empty()) adapter = derivation::read_adapter(options.lora, notes);
  if (program != nullptr) orient(adapter, *program);
  const std::int64_t adapted = adapter.size();
  weights.require_fit(adapter, options.lora);
  if (options.lora_as_inputs) inputs_of_adapter.products = std::exchange(adapter.products, {});
  if (program != nullptr) require_untied(extend_to_tied_names(adapter, *program, weights), options.lora);
  weights.adapt(std::move(adapter));
  if (file.program) {
    derivation::complete_unsaved_buffers(*file.program, weights, *file.tensors, *file.contents);
    weights.compute(*file.program);
  }
  std::optional<Weights> other;  // the first checkpoint, if it is not the one with the new weights
  if (!options.base.empty() && !options.weights.empty())
    other = Weights::read(options.base, program, file.prefix, notes);
  const Weights* const base = other ? &*other : options.base.empty() ? nullptr : &weights;
  Refit refit(file, weights, base, model);
  if (options.keep_scales) refit.keep_scales();
  if (adapted > 0) refit.explain_adapter();
  if (options.lora_as_inputs) refit.add_products(inputs_of_adapter);
  RefitReport report = refit.check();
  report.adapted = adapted;
  report.notes = std::move(notes);
  if (output) rewrite_tensors(*file.model, model, *output, refit.new_tensors(), refit.addition());
  return report;
}

}  // namespace whence::app
