#include "annotator/derivation/distinct_keys.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "schema/printable.h"
#include "schema/result.h"

namespace whence::derivation {

using Json = nlohmann::ordered_json;

Json parse_distinct(std::string_view text, const Place& place) {
  std::vector<std::set<std::string>> open;  // the keys of each object that is not closed yet
  std::string repeated;
  bool has_repeated = false;
  const auto count_keys = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !has_repeated) {
      repeated = parsed.get<std::string>();
      has_repeated = !open.back().insert(repeated).second;
    }
    return true;
  };
  Json json = Json::parse(text, count_keys, /*allow_exceptions=*/false);
  if (has_repeated) {
    throw Error(Code::corrupt_file, "the key '" + printable(repeated) + "' is written twice in one object",
                "write it again with `whence attest`", place);
  }
  return json;
}

}  // namespace whence::derivation
