// Runs every target on the stored inputs: `fuzz_corpus [--mutations N] FOLDER...`. Each folder, such as seeds/ and
// findings/, has a subfolder for each target. Also runs each input with N mutations and truncated; the changes are the
// same in each run. Stops at the first finding, prints the name of its input and writes the input to fuzz_finding.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned max_seconds = 20;  // for one input, also with sanitizers on a busy machine
#if defined(__SANITIZE_ADDRESS__)
constexpr bool under_address_sanitizer = true;
#elif defined(__has_feature)  // for clang
constexpr bool under_address_sanitizer = __has_feature(address_sanitizer);
#else
constexpr bool under_address_sanitizer = false;
#endif
constexpr rlim_t max_memory = rlim_t{4} << 30;
unsigned change_round = 0;
std::string running, input;  // for the signal handler: the current run and its input

void report(int signal) {
  std::fprintf(stderr, "fuzz_corpus: signal %d while running %s\n", signal, running.c_str());
  if (std::FILE* file = std::fopen("fuzz_finding", "wb")) {
    std::fwrite(input.data(), 1, input.size(), file);
    std::fclose(file);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Target& target, const std::string& what, std::string bytes) {
  running = std::string(target.name) + " on " + what;
  input = std::move(bytes);
  ::alarm(max_seconds);
  run_target(target, input);
  ::alarm(0);
}

// Changes some bytes, and removes or repeats a range of them.
std::string changed(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  for (auto i = random() % 4 + 1; i-- > 0;) bytes[random() % bytes.size()] = static_cast<char>(random());
  const std::size_t from = random() % bytes.size(), size = random() % std::min<std::size_t>(bytes.size() - from, 64);
  const std::string stretch = bytes.substr(from, size);
  if (random() % 4 == 0) bytes.erase(from, size);
  if (random() % 4 == 0) bytes.insert(from, stretch);
  return bytes;
}

void run_mutations(const Target& target, const std::string& what, const std::string& bytes, int count) {
  std::mt19937 random(static_cast<unsigned>(bytes.size()) + 65537 * change_round);
  for (int i = 0; i < count; ++i) {
    const std::string name = what + ", mutation " + std::to_string(i);
    const bool by_form = target.mutate != nullptr && i % 2 == 0;
    run(target, name, by_form ? target.mutate(bytes, static_cast<unsigned>(random())) : changed(bytes, random));
  }
  for (int i = 0; i < count / 4; ++i) run(target, what + ", cut short", bytes.substr(0, random() % (bytes.size() + 1)));
}

int run_folder(const fs::path& folder, int mutations) {
  int count = 0;
  for (const Target* target : Target::all()) {
    if (!fs::is_directory(folder / target->name)) continue;
    std::vector<fs::path> files;
    for (const fs::directory_entry& each : fs::directory_iterator(folder / target->name)) files.push_back(each.path());
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      const std::string bytes = content_of(file.string());
      run(*target, file.string(), bytes);
      run_mutations(*target, file.string(), bytes, mutations);
      ++count;
    }
  }
  return count;
}

// Returns false if a folder has no target, which means that its name is misspelt.
bool all_have_targets(const fs::path& folder) {
  for (const fs::directory_entry& each : fs::directory_iterator(folder)) {
    if (!each.is_directory() || Target::find(each.path().filename().string()) != nullptr) continue;
    std::fprintf(stderr, "fuzz_corpus: there is no target for %s\n", each.path().c_str());
    return false;
  }
  return true;
}

}  // namespace
}  // namespace whence::fuzz

int main(int argc, char** argv) {
  using namespace whence::fuzz;
  if (!under_address_sanitizer) {  // ASan reserves terabytes of addresses
    const rlimit memory{max_memory, max_memory};
    ::setrlimit(RLIMIT_AS, &memory);
  }
  int mutations = 0, first = 1, count = 0;
  if (argc > 2 && std::strcmp(argv[1], "--mutations") == 0) {
    mutations = std::atoi(argv[2]);
    first = 3;
    if (argc > 4 && std::strcmp(argv[3], "--round") == 0) {
      change_round = static_cast<unsigned>(std::atoi(argv[4]));
      first = 5;
    }
  }
  for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) std::signal(signal, report);
  for (const Target* target : Target::all()) run(*target, "no input", "");
  for (int i = first; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i]) || !all_have_targets(argv[i])) return EXIT_FAILURE;
    count += run_folder(argv[i], mutations);
  }
  std::printf("fuzz_corpus: %d inputs, %zu targets, nothing found\n", count, Target::all().size());
  return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
