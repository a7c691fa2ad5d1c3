// Compares whence's reader of the JSON in sidecars and torch.export archives with nlohmann's, which is slower and
// accepts duplicate keys.
#include "schema/json_document.h"
#include "tests/fuzz/mutators/mutators.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void check_lookup(const JsonValue& value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value.is_object()) {
      const auto found = value.find(value.key(i));
      require(found && found->identity() == value.member(i).identity(), "an entry is not found by its key");
    }
    check_lookup(value.is_object() ? value.member(i) : value[i]);
  }
}

void run(std::string_view input) {
  const auto json = JsonDocument::parse(input);
  if (json == nullptr) return;
  const auto other = nlohmann::ordered_json::parse(input, nullptr, /*allow_exceptions=*/false);
  require(!other.is_discarded(), "accepted invalid JSON");
  require(json->root().to_json() == other, "read another value");
  check_lookup(json->root());
}

const Target target("archive_json", run, 2048, mutate_json);

}  // namespace
}  // namespace whence::fuzz
