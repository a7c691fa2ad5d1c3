#include "annotator/app/refit.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "annotator/app/derived_file.h"
#include "annotator/app/separate_files.h"
#include "annotator/derivation/dequantise.h"
#include "annotator/derivation/element_views.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/onnx_file/tensor_rewrite.h"
#include "annotator/program/tensor_values.h"
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

class Refit {
 public:
  Refit(const DerivedFile& file, const Weights& weights, const std::string& path)
      : file_(file), weights_(weights), place_{.file = path, .stage = "refit"} {}

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

  RefitReport check() {
    RefitReport report;
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
    if (!problems_.empty()) throw Error(problems_);
    return report;
  }

  std::vector<onnx_file::NewTensor> new_tensors() const {
    std::vector<onnx_file::NewTensor> tensors;
    for (std::size_t i = 0; i < file_.derivations.size(); ++i) {
      const Derivation& derivation = file_.derivations[i];
      if (!derivation.expression) continue;
      const FileTensor& tensor = file_.tensors->all()[i];
      tensors.push_back({tensor.tensor, [this, &tensor, &derivation] { return make(tensor, derivation); }});
    }
    return tensors;
  }

 private:
  Bytes make(const FileTensor& tensor, const Derivation& derivation) const {
    const TensorData data = evaluate(*derivation.expression, file_.sources(weights_, scales_));
    if (data.bytes.size() != derivation.bytes) {
      throw Error(Code::internal, "the new tensor '" + printable(tensor.name) + "' has another size",
                  "please report this with the files", place_);
    }
    constexpr std::size_t released_size = 8 << 20;
    if (data.bytes.size() > released_size) weights_.release();
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
      refuse("the tensor '" + printable(tensor) + "' stands for the parameters '" + printable(step.name) + "' and '" +
                 printable(equal) + "', which were equal and no longer are",
             "export the new model; or refit a file whose nodes name their modules (whence annotate)");
      return;
    }
  }

  void refuse(std::string message, std::string remedy) {
    problems_.push_back(
        Error(Code::weights_mismatch, std::move(message), std::move(remedy), place_).diagnostics().front());
  }

  const DerivedFile& file_;
  const Weights& weights_;
  Place place_;
  Diagnostics problems_;
  std::shared_ptr<derivation::KnownScales> scales_ = std::make_shared<derivation::KnownScales>();
  std::set<std::string> reported_;
};

}  // namespace

RefitReport refit(const std::string& model, const RefitOptions& options) {
  if (options.weights.empty() && (options.lora.empty() || options.base.empty())) {
    throw Error(Code::usage, "there are no new weights", "pass --weights with the new checkpoint, or --base and --lora",
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
  const DerivedFile file = derived_file(model, {options.base, options.sidecar}, options.statement, notes);
  Weights weights = Weights::read(options.weights.empty() ? options.base : options.weights, notes);
  std::int64_t adapted = 0;
  if (!options.lora.empty()) adapted = weights.adapt(options.lora, notes);
  if (!options.sidecar.empty()) weights.compute(unwrap(read_sidecar(options.sidecar), notes).program);
  Refit refit(file, weights, model);
  if (options.keep_scales) refit.keep_scales();
  RefitReport report = refit.check();
  report.adapted = adapted;
  report.notes = std::move(notes);
  if (output) rewrite_tensors(*file.model, model, *output, refit.new_tensors());
  return report;
}

}  // namespace whence::app
