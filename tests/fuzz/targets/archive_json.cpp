// The JSON of torch.export's archives: the reader against nlohmann's, which is slower and takes keys twice.
#include <nlohmann/json.hpp>

#include "annotator/pt2/json.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

using pt2::Json;
using pt2::JsonValue;
using Kind = JsonValue::Kind;

void compare_object(const Json& json, const JsonValue& object, const nlohmann::json& other);

void compare(const Json& json, const JsonValue& value, const nlohmann::json& other) {
  switch (value.kind) {
    case Kind::null:
      return require(other.is_null(), "null");
    case Kind::boolean:
      return require(other.is_boolean() && other == value.flag, "a truth value");
    case Kind::integer:
      return require(other.is_number_integer() && other == value.integer, "an integer");
    case Kind::number:
      return require(other.is_number(), "a number");
    case Kind::string:
      return require(other.is_string() && other.get_ref<const std::string&>() == value.string(), "a string");
    case Kind::array:
      require(other.is_array() && other.size() == value.size, "an array");
      for (std::size_t i = 0; i < value.size; ++i) compare(json, json.element(value, i), other[i]);
      return;
    case Kind::object:
      return compare_object(json, value, other);
  }
}

void compare_object(const Json& json, const JsonValue& object, const nlohmann::json& other) {
  require(other.is_object() && other.size() == object.size, "an object");
  for (std::size_t i = 0; i < object.size; ++i) {
    const std::string key(json.key(object, i));
    require(other.contains(key), "a key");
    require(json.find(object, key) == &json.entry(object, i), "an entry by its key");
    compare(json, json.entry(object, i), other[key]);
  }
}

void run(std::string_view input) {
  const auto json = Json::parse(input);
  if (json == nullptr) return;
  const auto other = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  require(!other.is_discarded(), "read what is no JSON");
  compare(*json, json->root(), other);
}

const Target target("archive_json", run, 2048, mutate_json);

}  // namespace
}  // namespace whence::fuzz
