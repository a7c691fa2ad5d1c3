// Runs the targets under libFuzzer: `whence_fuzz --target=NAME [libFuzzer's options] [corpus...]`.
//
// With --coverage=FILE, writes the coverage of all inputs at the end, one byte for each edge of the control flow: bit 0
// if it was reached, bit 1 if it is a function's first edge. run_fuzzers.py counts the coverage of the final corpus.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

// The edge counters of clang's -fsanitize-coverage and their tables; the linker defines the names of their bounds.
struct EdgeInfo {
  std::uintptr_t address, is_function;
};

}  // namespace

extern "C" std::uint8_t __start___sancov_cntrs, __stop___sancov_cntrs;
extern "C" const EdgeInfo __start___sancov_pcs, __stop___sancov_pcs;

namespace {

const whence::fuzz::Target* chosen = nullptr;
std::string coverage_file;
std::vector<std::uint8_t> reached;  // by edge

// libFuzzer ignores options with two dashes.
constexpr std::string_view target_option = "--target=", coverage_option = "--coverage=";

void add_coverage() {
  const std::uint8_t* const counters = &__start___sancov_cntrs;
  reached.resize(static_cast<std::size_t>(&__stop___sancov_cntrs - counters));
  for (std::size_t i = 0; i < reached.size(); ++i) reached[i] |= counters[i] != 0 ? 1 : 0;
}

void write_coverage() {
  const EdgeInfo* const edges = &__start___sancov_pcs;
  for (std::size_t i = 0; i < reached.size(); ++i) reached[i] |= (edges[i].is_function & 1) != 0 ? 2 : 0;
  if (std::FILE* file = std::fopen(coverage_file.c_str(), "wb")) {
    std::fwrite(reached.data(), 1, reached.size(), file);
    std::fclose(file);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t longest);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument.starts_with(target_option)) chosen = whence::fuzz::Target::find(argument.substr(target_option.size()));
    if (argument.starts_with(coverage_option)) coverage_file = argument.substr(coverage_option.size());
  }
  if (!coverage_file.empty()) std::atexit(write_coverage);
  whence::fuzz::attempt_one_part();
  if (chosen != nullptr) return 0;
  std::fputs("whence_fuzz --target=NAME, one of:\n", stderr);
  for (const whence::fuzz::Target* each : whence::fuzz::Target::all()) {
    std::fprintf(stderr, "  %-20s up to %zu bytes\n", std::string(each->name).c_str(), each->longest);
  }
  std::exit(EXIT_FAILURE);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= chosen->longest) whence::fuzz::run_target(*chosen, {reinterpret_cast<const char*>(data), size});
  if (!coverage_file.empty()) add_coverage();
  return 0;
}

// Uses the target's mutator for half of the mutations and libFuzzer's for the other half.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t longest,
                                               unsigned random) {
  if (chosen->mutate == nullptr || (random & 1) != 0) return LLVMFuzzerMutate(data, size, longest);
  const std::string changed = chosen->mutate({reinterpret_cast<const char*>(data), size}, random / 2);
  if (changed.empty() || changed.size() > longest) return LLVMFuzzerMutate(data, size, longest);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
