#include "annotator/app/export_options.h"

#include <bit>

#include "annotator/app/recorder_library.h"
#include "annotator/origin/keys/program.h"
#include "schema/json_text.h"
#include "schema/sidecar/sidecar.h"
#include "schema/size_text.h"

namespace whence::app {
namespace {

const Place command_line{.stage = "command line"};

int checked_opset(int opset) {
  using exporter::newest_opset, exporter::oldest_opset;
  if (opset >= oldest_opset && opset <= newest_opset) return opset;
  throw Error(Code::usage, "--opset " + std::to_string(opset) + " is not supported",
              "choose an opset from " + std::to_string(oldest_opset) + " to " + std::to_string(newest_opset),
              command_line);
}

operators::OperatorForms operator_forms(const std::string& choice) {
  if (choice.empty()) return operators::OperatorForms::runnable;
  if (choice == "fused") return operators::OperatorForms::fused;
  if (choice == "plain") return operators::OperatorForms::plain;
  throw Error(Code::usage, "unknown --operators=" + choice,
              "choose 'fused' (all operators of the opset) or 'plain' (no operators newer than opset 22)",
              command_line);
}

// Checks an entry {"mylib": 2}: operators of the namespace mylib become nodes of the domain mylib, version 2.
void check_domain(const std::string& domain, int version) {
  if (version >= 1 && !domain.empty() && domain != "ai.onnx") return;
  throw Error(Code::usage,
              "--custom-opset '" + domain + "=" + std::to_string(version) + "' is not a domain with a version",
              "write it as mylib=1; the version of ONNX's own operators is --opset", command_line);
}

}  // namespace

ExternalData external_data(const Options& options) {
  ExternalData external = options.external_data;
  external.always |= external.per_tensor || external.threshold || external.alignment;
  if (std::has_single_bit(external.alignment.value_or(1))) return external;
  throw Error(Code::usage,
              "--external-data-alignment " + std::to_string(*external.alignment) + " is not a power of two",
              "use 1 for no alignment, or 4096 for pages", command_line);
}

exporter::ExportOptions conversion_options(const Options& options) {
  exporter::ExportOptions conversion;
  conversion.opset = checked_opset(options.opset);
  conversion.operators = operator_forms(options.operators);
  conversion.input_names = options.input_names;
  conversion.output_names = options.output_names;
  conversion.unsupported_as_domain = options.unsupported_as_domain;
  conversion.simplify = options.optimize;
  conversion.fold = options.optimize && options.fold;
  conversion.weights_as_inputs = options.weights_as_inputs;
  conversion.keep_bfloat16 = options.keep_bfloat16;
  conversion.trace_composite = trace_composite;
  for (const auto& [domain, version] : options.custom_opsets) {
    check_domain(domain, version);
    conversion.passed_through.insert(domain);
  }
  conversion.kept_operators.insert(options.kept_operators.begin(), options.kept_operators.end());
  return conversion;
}

// Returns the constraints on input sizes under which the file agrees with the model: ["n != 1", "time <= 512"]. Empty
// if there are none.
std::string constraints_of(const Program& program) {
  std::string list;
  const auto name_of = [&](SymbolId id) { return program.symbols[id].name; };
  for (const Constraint& constraint : program.constraints) {
    list += (list.empty() ? "" : ", ") + quoted_json(text_of(constraint, name_of));
  }
  return list.empty() ? "" : "[" + list + "]";
}

write::WriteOptions write_options(const Program& program, const Options& options) {
  write::WriteOptions writing;
  writing.opset = options.opset;
  writing.producer_version = WHENCE_VERSION;
  writing.metadata = {{std::string(origin::keys::program), program_digest(program)}};
  if (std::string list = constraints_of(program); !list.empty()) {
    writing.metadata.emplace_back(origin::keys::constraints, std::move(list));
  }
  writing.external = external_data(options);
  writing.initializers_as_inputs = options.keep_initializers_as_inputs;
  for (const auto& [domain, version] : options.custom_opsets) writing.domain_versions[domain] = version;
  return writing;
}

}  // namespace whence::app
