#include "annotator/derivation/statement.h"

#include <algorithm>
#include <utility>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/data_file.h"
#include "schema/files/files.h"
#include "schema/files/sha256.h"
#include "schema/printable.h"

namespace whence::derivation {
namespace {

using Json = nlohmann::ordered_json;

bool has_array(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_array();
}

bool has_text(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string();
}

}  // namespace

std::vector<FileDigest> digests_of(const std::string& path, const onnx_file::OnnxSummary& model) {
  std::vector<FileDigest> files = {{base_name(path), sha256_of_file(path)}};
  for (const auto& [location, end] : onnx_file::data_files_of(model).locations) {
    const std::string data = onnx_file::require_data_file(path, location, {.file = path, .stage = "read"}).string();
    files.push_back({location, sha256_of_file(data)});
  }
  return files;
}

Statement Statement::read(const std::string& path) {
  const Place place{.file = path, .stage = "read"};
  const auto text = MappedFile::open(path);
  Json json = Json::parse(text->text(), nullptr, /*allow_exceptions=*/false);
  const bool is_statement = has_array(json, "subject") && json.contains("predicate") &&
                            has_array(json["predicate"], "tensors") && has_array(json["predicate"], "nodes");
  const auto states = [&](const char* key, std::string_view value) {
    return is_statement && has_text(json, key) && json[key].get_ref<const std::string&>() == value;
  };
  if (!states("_type", statement_type) || !states("predicateType", predicate_type)) {
    throw Error(Code::wrong_kind, "the file is not a statement of `whence attest`, or of another version",
                "pass the file of `whence attest -o`", place);
  }
  Statement statement;
  for (const Json& file : json["subject"]) {
    const bool has_digest = has_text(file, "name") && file.contains("digest") && has_text(file["digest"], "sha256");
    if (!has_digest) {
      throw Error(Code::corrupt_file, "the statement has a subject without name or SHA-256",
                  "write it again with `whence attest`", place);
    }
    statement.subject.push_back({file["name"].get<std::string>(), file["digest"]["sha256"].get<std::string>()});
  }
  statement.predicate = std::move(json["predicate"]);
  return statement;
}

std::optional<std::string> Statement::difference(const std::vector<FileDigest>& files) const {
  // The order of subjects has no meaning in in-toto's form.
  if (std::ranges::find(subject, files.front().sha256, &FileDigest::sha256) == subject.end())
    return "the statement is about another file";
  for (std::size_t i = 1; i < files.size(); ++i) {
    const auto stated = std::ranges::find(subject, files[i].name, &FileDigest::name);
    if (stated == subject.end() || stated->sha256 != files[i].sha256) {
      return "the statement is about another content of the data file '" + printable(files[i].name) + "'";
    }
  }
  return std::nullopt;
}

}  // namespace whence::derivation
