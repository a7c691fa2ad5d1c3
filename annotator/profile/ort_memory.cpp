#include "annotator/profile/ort_memory.h"

#include "annotator/profile/csv_rows.h"

namespace whence::profile {
namespace {

constexpr std::string_view memory_header = "#name,input_sizes,initializers_sizes,";

bool recognises_memory(const ProfileInput& input) { return input.first_line.starts_with(memory_header); }

std::string without_hash(std::string name) {
  const std::size_t last = name.rfind('_');
  const bool hash = last != std::string::npos && last + 1 < name.size() &&
                    name.find_first_not_of("0123456789", last + 1) == std::string::npos;
  if (hash) name.resize(last);
  return name;
}

RuntimeProfile read_memory(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  profile.unit = Unit::bytes;
  profile.runs = 1;
  profile.averaged = true;
  AmountSum sum(input.place);
  CsvRows rows(input.text(), ',');
  while (rows.next()) {
    const auto bytes = [&](std::string_view column) {
      const auto value = amount_in(rows.at(column).value_or(""));
      if (value) return *value;
      corrupt_profile("row " + std::to_string(rows.row()) + " has no " + std::string(column),
                      "run the session again until it ends", input.place);
    };
    const LayerMemory memory{bytes("input_sizes"), bytes("initializers_sizes"), bytes("total_dynamic_sizes"),
                             bytes("total_temp_allocations"), std::nullopt};
    profile.layers.push_back(
        {.name = without_hash(*rows.at("#name")),
         .count = 1,
         .amount = sum.add(memory.parameters) + sum.add(memory.outputs) + sum.add(memory.temporary),
         .memory = memory});
  }
  if (profile.layers.empty()) {
    throw Error(Code::truncated_file, "the file has no row for a node", "run the session again until it ends",
                input.place);
  }
  return profile;
}

}  // namespace

const ProfileReader ort_memory_reader = {"onnxruntime-memory", "table of ONNX Runtime's memory", recognises_memory,
                                         read_memory};

}  // namespace whence::profile
