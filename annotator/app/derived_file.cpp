#include "annotator/app/derived_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "annotator/derivation/effects.h"
#include "annotator/derivation/expression_json.h"
#include "annotator/derivation/norm_pairs.h"
#include "annotator/derivation/recorded_results.h"
#include "annotator/derivation/stated_rows.h"
#include "annotator/derivation/statement.h"
#include "annotator/derivation/unsaved_buffers.h"
#include "annotator/program/tensor_values.h"
#include "schema/printable.h"
#include "schema/program_walk.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

using derivation::Derivation;
using derivation::Verdict;
using Json = nlohmann::ordered_json;

namespace {

DerivedFile open_model(const std::string& path, Diagnostics& notes) {
  DerivedFile file;
  file.model = std::make_unique<const onnx_file::OnnxSummary>(unwrap(onnx_file::read_onnx_summary(path), notes));
  file.tensors = std::make_unique<const derivation::FileTensors>(*file.model);
  file.contents = std::make_unique<derivation::Contents>(path, file.model->file);
  return file;
}

std::optional<Verdict> verdict_of(const std::string& name) {
  for (const Verdict verdict : derivation::all_verdicts) {
    if (name_of(verdict) == name) return verdict;
  }
  return std::nullopt;
}

// Returns the number that all elements of a tensor are.
std::optional<double> number_of_all(const TensorData& data) {
  const auto elements = program::Elements::of(data);
  if (!elements || elements->size() == 0) return std::nullopt;
  for (std::size_t i = 1; i < elements->size(); ++i) {
    if (elements->number(i) != elements->number(0)) return std::nullopt;
  }
  return elements->number(0);
}

}  // namespace

bool has_all(const TensorData& data, double number) { return number_of_all(data) == number; }

namespace {

std::vector<AbsentParameter> absent_parameters(const derivation::FileTensors& tensors,
                                               const std::vector<Derivation>& derivations,
                                               const derivation::Weights& weights) {
  std::set<std::string, std::less<>> held;
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    const Derivation& derivation = derivations[i];
    const bool is_read = !tensors.all()[i].uses.empty() || tensors.all()[i].is_output;
    if (!derivation.expression || !is_read) continue;
    for_each_parameter(*derivation.expression, [&](const derivation::ParameterStep& step) {
      for_each_name(step, [&](const std::string& name) { held.insert(name); });
    });
  }
  std::vector<AbsentParameter> absent;
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const auto& tensor = weights.tensors()[i];
    if (!weights.is_computed(i) && !held.contains(tensor.name)) {
      absent.push_back({tensor.name, tensor.data.dtype, tensor.data.shape, number_of_all(tensor.data)});
    }
  }
  return absent;
}

// Returns the parameters that a norm with a scale of zeros makes ineffective, as before the training of a residual
// branch: its statistics, and the weight of the convolution before it.
std::set<std::string, std::less<>> multiplied_by_zero(const Program& program, const derivation::Weights& weights) {
  std::set<std::string, std::less<>> names;
  for (const derivation::NormPair& pair : derivation::norm_pairs(program)) {
    if (pair.scale.empty() || weights.find(pair.scale) == nullptr || !has_all(weights.value(pair.scale), 0)) continue;
    names.insert({pair.weight, pair.mean, pair.variance});
  }
  return names;
}

// Exporters leave out biases of zeros and scales of ones. Without another parameter that has an effect in the program,
// the file computes something else.
void note_effects(const Program& program, const std::vector<derivation::ProgramForm>& forms,
                  const derivation::Weights& weights, std::vector<AbsentParameter>& absent) {
  std::set<std::string, std::less<>> read;
  const std::set<std::int32_t> without_effect = derivation::operations_without_effect(program, forms);
  for (const Node* node : operations(program)) {
    if (without_effect.contains(node->origin.op)) continue;
    for (const NamedArgument& argument : node->arguments) {
      each_value(argument.value, [&](ValueId id) {
        const Value& value = program.values[id];
        if (value.source != ValueSource::parameter) return;
        const Parameter& parameter = program.parameters[ParameterId(value.index)];
        read.insert(parameter.name);
        read.insert(parameter.aliases.begin(), parameter.aliases.end());
      });
    }
  }
  const auto without_number = multiplied_by_zero(program, weights);
  for (AbsentParameter& each : absent) {
    const bool is_neutral =
        (each.number && (*each.number == 0 || *each.number == 1)) || without_number.contains(each.name);
    each.has_effect = is_floating(each.dtype) && !is_neutral && read.contains(each.name);
  }
}

template <class Corrupt>
AbsentParameter absent_from(const Json& row, const Corrupt& corrupt) {
  const auto has = [&](const char* key, bool (Json::*is_kind)() const noexcept) {
    return row.is_object() && row.contains(key) && (row[key].*is_kind)();
  };
  const bool has_form = has("name", &Json::is_string) && has("dtype", &Json::is_string) && has("dims", &Json::is_array);
  const auto is_integer = [](const Json& size) { return size.is_number_integer(); };
  if (!has_form || !std::ranges::all_of(row["dims"], is_integer)) {
    throw corrupt("has an absent parameter without name, dtype or sizes");
  }
  const auto dtype = parse_dtype(row["dtype"].get<std::string>());
  if (!dtype) throw corrupt("has an absent parameter of an unknown dtype");
  AbsentParameter absent{row["name"].get<std::string>(), *dtype, row["dims"].get<std::vector<std::int64_t>>()};
  if (has("number", &Json::is_number)) absent.number = row["number"].get<double>();
  return absent;
}

}  // namespace

derivation::Sources DerivedFile::sources(const derivation::Weights& weights,
                                         std::shared_ptr<derivation::KnownScales> scales) const {
  return {weights,
          [this](const std::string& name) {
            const derivation::TensorNumber tensor = tensors->find(name);
            if (tensor == derivation::no_tensor) {
              throw Error(Code::corrupt_file,
                          "the file has no tensor '" + printable(name) + "', which a derivation keeps",
                          "write the statement again", {.stage = "refit"});
            }
            return contents->data((*tensors)[tensor]);
          },
          std::move(scales)};
}

DerivedFile derive_file(const std::string& model, const CheckpointAndProgram& from, Diagnostics& notes) {
  DerivedFile file = open_model(model, notes);
  if (!from.sidecar.empty()) {
    Sidecar recorded = unwrap(read_sidecar(from.sidecar), notes);
    if (!recorded.complete) {
      throw Error(Code::sidecar_mismatch, "the sidecar is incomplete: its recording ended before the model did",
                  "record the model again", {.file = from.sidecar, .stage = "read"});
    }
    file.program = std::move(recorded.program);
  }
  auto weights = derivation::Weights::read(from.weights, file.program ? &*file.program : nullptr, {}, notes);
  file.prefix = weights.prefix();
  std::optional<derivation::ProgramConstants> constants;
  if (file.program) {
    derivation::remove_wrapper(*file.program, weights);
    derivation::complete_unsaved_buffers(*file.program, weights, *file.tensors, *file.contents);
    weights.compute(*file.program);
    Program computing = *file.program;
    derivation::forget_recorded_results(computing);
    file.forms = derivation::forms_of(computing, weights);
    constants.emplace(computing, file.forms);
  }
  const auto facts = file.program ? derivation::ProgramFacts(*file.program, file.forms) : derivation::ProgramFacts();
  file.derivations =
      derivation::derive(*file.tensors, *file.contents, weights, constants ? &*constants : nullptr, facts);
  file.absent = absent_parameters(*file.tensors, file.derivations, weights);
  if (file.program) note_effects(*file.program, file.forms, weights, file.absent);
  file.weights = std::make_unique<const derivation::Weights>(std::move(weights));
  return file;
}

DerivedFile read_statement(const std::string& model, const std::string& statement, Diagnostics& notes) {
  DerivedFile file = open_model(model, notes);
  const Place place{.file = statement, .stage = "read"};
  const auto corrupt = [&](const std::string& what) {
    return Error(Code::corrupt_file, "the statement " + what, "write it again with `whence attest`", place);
  };
  const auto stated = derivation::Statement::read(statement);
  if (const auto difference = stated.difference(derivation::digests_of(model, *file.model))) {
    throw Error(Code::sidecar_mismatch, *difference, "pass the statement of this file", place);
  }
  const Json& rows = stated.predicate["tensors"];
  if (const auto difference = derivation::difference_in_tensors(rows, *file.tensors, *file.contents)) {
    throw Error(Code::corrupt_file, *difference, "write it again with `whence attest`", place);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    if (!row.contains("verdict") || !row["verdict"].is_string()) throw corrupt("has a tensor without a verdict");
    const auto verdict = verdict_of(row["verdict"].get<std::string>());
    if (!verdict) throw corrupt("has an unknown verdict");
    Derivation derivation{.verdict = *verdict};
    derivation.bytes = file.contents->of(file.tensors->all()[i]).size();
    if (row.contains("derivation")) derivation.expression = derivation::expression_from(row["derivation"], place);
    const bool needs_expression = *verdict == Verdict::exact || *verdict == Verdict::bounded;
    if (needs_expression && !derivation.expression) throw corrupt("has a tensor without its derivation");
    file.derivations.push_back(std::move(derivation));
  }
  if (stated.predicate.contains("prefix") && stated.predicate["prefix"].is_string())
    file.prefix = stated.predicate["prefix"].get<std::string>();
  for (const Json& row : stated.predicate["absent"]) file.absent.push_back(absent_from(row, corrupt));
  return file;
}

DerivedFile derived_file(const std::string& model, const CheckpointAndProgram& from, const std::string& statement,
                         Diagnostics& notes) {
  if (from.weights.empty() == statement.empty()) {
    throw Error(Code::usage,
                from.weights.empty() ? "the first checkpoint is missing" : "--base and --statement were both passed",
                "pass --base with the checkpoint that the file was made from, or --statement with the output of "
                "`whence attest`",
                {.stage = "command line"});
  }
  return statement.empty() ? derive_file(model, from, notes) : read_statement(model, statement, notes);
}

}  // namespace whence::app
