#include "tests/fuzz/target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <typeinfo>

#include <unistd.h>

namespace whence::fuzz {
namespace {

namespace fs = std::filesystem;

bool one_part = false;

std::vector<const Target*>& targets() {
  static std::vector<const Target*> all;
  return all;
}

[[noreturn]] void report_finding(std::string_view what) {
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// Requires a remedy in every error, and no report of a defect in whence.
void require_expected(const Diagnostics& diagnostics) {
  require(!diagnostics.empty(), "an error without a diagnostic");
  for (const Diagnostic& each : diagnostics) {
    if (each.code == Code::internal) report_finding(to_text(each));
    if (each.severity == Severity::error && each.remedy.empty()) report_finding("no remedy: " + to_text(each));
    to_json(each);
  }
}

class ScratchDisk {
 public:
  ScratchDisk() {
    const fs::path memory = "/dev/shm";
    const fs::path parent = ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
    path_ = (parent / "whence-fuzz-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) report_finding("cannot create a folder in " + parent.string());
  }
  ~ScratchDisk() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchDisk(const ScratchDisk&) = delete;
  ScratchDisk& operator=(const ScratchDisk&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

Target::Target(std::string_view name, Run run, std::size_t longest, Mutate mutate)
    : name(name), run(run), longest(longest), mutate(mutate) {
  targets().push_back(this);
  std::ranges::sort(targets(), {}, [](const Target* each) { return each->name; });
}

const std::vector<const Target*>& Target::all() { return targets(); }

const Target* Target::find(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, [](const Target* each) { return each->name; });
  return found == targets().end() ? nullptr : *found;
}

void run_target(const Target& target, std::string_view input) {
  attempt([&] { target.run(input); });
}

void attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    require_expected(error.diagnostics());
  } catch (const std::exception& other) {
    report_finding(std::string("an exception other than Error: ") + typeid(other).name() + ": " + other.what());
  }
}

void attempt_each(std::string_view input, const std::vector<std::function<void()>>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!one_part || i == input.size() % parts.size()) attempt(parts[i]);
  }
}

void attempt_one_part() { one_part = true; }

void require(bool holds, std::string_view what) {
  if (!holds) report_finding(what);
}

std::string scratch(std::string_view name) {
  static const ScratchDisk disk;
  return disk.path() + "/" + std::string(name);
}

std::string file_of(std::string_view name, std::string_view content) {
  std::string path = scratch(name);
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  return path;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace whence::fuzz
