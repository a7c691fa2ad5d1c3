// Mutates JSON but keeps it valid, so that the code after the parser is reached: changes, repeats, nests and removes
// values, keys and arrays.
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "schema/json_text.h"
#include "tests/fuzz/mutators/mutators.h"

namespace whence::fuzz {
namespace {

using Json = nlohmann::ordered_json;
using Random = std::mt19937;

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& each : value) collect(each, all);
}

Json other_number(const Json& value, Random& random) {
  constexpr std::array<std::int64_t, 10> numbers = {-1,
                                                    0,
                                                    1,
                                                    2,
                                                    7,
                                                    255,
                                                    0x7fffffff,
                                                    -0x80000000LL,
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    std::numeric_limits<std::int64_t>::min()};
  if (value.is_number_integer() && random() % 2 == 0) {
    const auto wrapped = static_cast<std::uint64_t>(value.get<std::int64_t>()) + random() % 5 - 2;
    return static_cast<std::int64_t>(wrapped);
  }
  if (random() % 8 == 0) return std::numeric_limits<std::uint64_t>::max();
  if (random() % 8 == 0) return 1e300;
  return numbers[random() % numbers.size()];
}

Json other_text(std::string text, Random& random) {
  if (text.empty()) return "x";
  const std::size_t at = random() % text.size();
  switch (random() % 5) {
    case 0:
      return "";
    case 1:
      return text.substr(0, at);
    case 2:
      return text + text.substr(at);
    case 3:
      return text.erase(at, random() % 4 + 1);
    default:
      constexpr std::string_view marks = ".:/_,()[]'\"019 @-";
      text[at] = marks[random() % marks.size()];
      return text;
  }
}

Json other_value(const Json& value, Random& random) {
  if (random() % 6 == 0) return std::array<Json, 5>{nullptr, true, 0, "", Json::array()}[random() % 5];
  if (value.is_number()) return other_number(value, random);
  if (value.is_string()) return other_text(value.get<std::string>(), random);
  if (value.is_boolean()) return !value.get<bool>();
  return value;
}

void change_container(Json& value, Random& random) {
  const auto at = std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size()));
  if (random() % 2 == 0) {
    value.erase(at);
  } else if (value.is_array()) {
    value.insert(at, Json(*at));
  } else {
    value[at.key() + "_"] = Json(at.value());
  }
}

}  // namespace

std::string mutate_json(std::string_view text, unsigned seed) {
  Random random(seed);
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return "";
  for (auto i = random() % 3 + 1; i-- > 0;) {
    std::vector<Json*> all;
    collect(document, all);
    Json &value = *all[random() % all.size()], &other = *all[random() % all.size()];
    if (value.is_structured() && !value.empty() && random() % 3 != 0) {
      change_container(value, random);
    } else if (random() % 3 == 0) {
      value = Json(other);
    } else {
      value = other_value(value, random);
    }
  }
  return json_text(document);
}

}  // namespace whence::fuzz
