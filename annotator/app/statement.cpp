// Writes an attestation in the forms of in-toto and CycloneDX.
//
// Sources: https://github.com/in-toto/attestation, spec/v1; https://cyclonedx.org/docs/1.6/json.
#include <nlohmann/json.hpp>

#include "annotator/app/attest.h"
#include "annotator/derivation/expression_json.h"
#include "schema/json_text.h"

namespace whence::app {
namespace {

using Json = nlohmann::ordered_json;
using derivation::FileDigest;
using comparison::NodeVerdict;
using derivation::Verdict;

constexpr std::array node_verdict_list = {NodeVerdict::operation, NodeVerdict::movement, NodeVerdict::size,
                                          NodeVerdict::unaccounted};

Json digests_json(const std::vector<FileDigest>& files) {
  Json list = Json::array();
  for (const FileDigest& file : files) list.push_back({{"name", file.name}, {"digest", {{"sha256", file.sha256}}}});
  return list;
}

Json totals_json(const AttestReport& report) {
  Json tensors, bytes, nodes;
  for (const Verdict verdict : derivation::all_verdicts) {
    const AttestReport::Count count = report.count(verdict);
    tensors[std::string(name_of(verdict))] = count.tensors;
    bytes[std::string(name_of(verdict))] = count.bytes;
  }
  for (const NodeVerdict verdict : node_verdict_list) nodes[std::string(name_of(verdict))] = report.count(verdict);
  return {{"tensors", tensors}, {"bytes", bytes}, {"nodes", nodes}};
}

Json roundings_json(const derivation::RoundingCounts& counts) {
  return {{"integers", counts.elements}, {"not_nearest", counts.others},
          {"above", counts.above},       {"near_halfway", counts.near_halfway},
          {"rows", counts.rows},         {"fullest_row", counts.fullest_row},
          {"p_sides", counts.p_sides},   {"p_halfway", counts.p_halfway},
          {"p_rows", counts.p_rows},     {"unlike_calibration", !counts.unlike_noise.empty()}};
}

Json tensor_json(const AttestedTensor& tensor) {
  const derivation::Derivation& derivation = tensor.derivation;
  Json json = {{"name", tensor.name},
               {"dtype", tensor.dtype},
               {"dims", tensor.dims},
               {"bytes", derivation.bytes},
               {"verdict", name_of(derivation.verdict)},
               {"modules", tensor.modules}};
  if (!derivation.remark.empty()) json["remark"] = derivation.remark;
  if (derivation.roundings) json["roundings"] = roundings_json(*derivation.roundings);
  if (derivation.expression) {
    json["from"] = to_text(*derivation.expression);
    json["derivation"] = to_json(*derivation.expression);
  }
  return json;
}

Json absent_json(const std::vector<AbsentParameter>& parameters) {
  Json list = Json::array();
  for (const AbsentParameter& parameter : parameters) {
    Json json = {{"name", parameter.name}, {"dtype", name_of(parameter.dtype)}, {"dims", parameter.dims}};
    if (parameter.number) json["number"] = *parameter.number;
    if (parameter.has_effect) json["has_effect"] = true;
    list.push_back(std::move(json));
  }
  return list;
}

Json hashes_json(const FileDigest& file) { return Json::array({{{"alg", "SHA-256"}, {"content", file.sha256}}}); }

Json component_json(const FileDigest& file, const char* type) {
  return {
      {"type", type}, {"bom-ref", file.name + "@" + file.sha256}, {"name", file.name}, {"hashes", hashes_json(file)}};
}

}  // namespace

std::string statement_of(const AttestReport& report) {
  Json tensors = Json::array(), nodes = Json::array();
  for (const AttestedTensor& tensor : report.tensors) tensors.push_back(tensor_json(tensor));
  for (const AttestedNode& node : report.nodes) {
    Json json = {
        {"name", node.name}, {"op_type", node.op_type}, {"verdict", name_of(node.verdict)}, {"modules", node.modules}};
    if (!node.remark.empty()) json["remark"] = node.remark;
    nodes.push_back(std::move(json));
  }
  Json statement = {{"_type", derivation::statement_type},
                    {"subject", digests_json(report.model)},
                    {"predicateType", derivation::predicate_type},
                    {"predicate",
                     {{"producer", "whence " WHENCE_VERSION},
                      {"sources", digests_json(report.sources)},
                      {"totals", totals_json(report)},
                      {"tensors", tensors},
                      {"nodes", nodes},
                      {"absent", absent_json(report.absent)},
                      {"differences", report.differences}}}};
  if (!report.prefix.empty()) statement["predicate"]["prefix"] = report.prefix;
  return json_text(statement) + "\n";
}

std::string bill_of_materials_of(const AttestReport& report) {
  const FileDigest& model = report.model.front();
  Json component = component_json(model, "machine-learning-model");
  Json properties = Json::array();
  for (const Verdict verdict : derivation::all_verdicts) {
    properties.push_back({{"name", "whence:bytes:" + std::string(name_of(verdict))},
                          {"value", std::to_string(report.count(verdict).bytes)}});
  }
  for (const NodeVerdict verdict : node_verdict_list) {
    properties.push_back(
        {{"name", "whence:nodes:" + std::string(name_of(verdict))}, {"value", std::to_string(report.count(verdict))}});
  }
  component["properties"] = properties;
  Json components = Json::array(), depends = Json::array(), dependencies = Json::array();
  const auto add = [&](const FileDigest& file, const char* type) {
    Json part = component_json(file, type);
    depends.push_back(part["bom-ref"]);
    dependencies.push_back({{"ref", part["bom-ref"]}});
    components.push_back(std::move(part));
  };
  for (std::size_t i = 1; i < report.model.size(); ++i) add(report.model[i], "file");
  for (const FileDigest& source : report.sources) add(source, "file");
  dependencies.push_back({{"ref", component["bom-ref"]}, {"dependsOn", depends}});
  const Json bom = {
      {"$schema", "http://cyclonedx.org/schema/bom-1.6.schema.json"},
      {"bomFormat", "CycloneDX"},
      {"specVersion", "1.6"},
      {"version", 1},
      {"metadata",
       {{"tools",
         {{"components", Json::array({{{"type", "application"}, {"name", "whence"}, {"version", WHENCE_VERSION}}})}}},
        {"component", component}}},
      {"components", components},
      {"dependencies", dependencies}};
  return json_text(bom) + "\n";
}

}  // namespace whence::app
