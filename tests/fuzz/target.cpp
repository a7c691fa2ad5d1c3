#include "tests/fuzz/target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <streambuf>
#include <typeinfo>

#include <unistd.h>

#include "tools/whence/command.h"
#include "whence/export.h"

namespace whence::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<const Target*>& targets() {
  static std::vector<const Target*> all;
  return all;
}

[[noreturn]] void report_finding(std::string_view what) {
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// Every error has a remedy, and none says that whence has a defect.
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
    if (::mkdtemp(path_.data()) == nullptr) report_finding("no folder can be made in " + parent.string());
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

class Nowhere : public std::streambuf {
 protected:
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
};

// While it lives, the command's output goes nowhere.
class Silence {
 public:
  Silence() : out_(std::cout.rdbuf(&nowhere_)), error_(std::cerr.rdbuf(&nowhere_)) {}
  ~Silence() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(error_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  Nowhere nowhere_;
  std::streambuf *out_, *error_;
};

const Command* find_command(std::string_view name) {
  for (const Command* command :
       {&annotate_command, &diff_command, &dot_command, &explain_command, &export_command, &extract_command,
        &functions_command, &graphml_command, &inline_command, &ops_command, &profile_command, &report_command,
        &select_command, &show_command, &strip_command, &validate_command}) {
    if (name == command->name) return command;
  }
  return nullptr;
}

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
    report_finding(std::string("an exception that is no Error: ") + typeid(other).name() + ": " + other.what());
  }
}

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

void run_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> texts = arguments;
  const Command* command = find_command(texts.front());
  require(command != nullptr, "a target names a subcommand that there is not");
  std::vector<char*> pointers;
  for (std::size_t i = 1; i < texts.size(); ++i) pointers.push_back(texts[i].data());
  const Silence silence;
  command->run(static_cast<int>(pointers.size()), pointers.data());
}

const GoodModel& good_model() {
  static const GoodModel good = [] {
    GoodModel files{WHENCE_SOURCE_DIR "/tests/torch_versions/fixtures/2.13.0/dynamic.pt2", scratch("good.onnx"),
                    scratch("good.whence.json")};
    export_archive(files.archive, files.model, {.sidecar = files.sidecar});
    return files;
  }();
  return good;
}

}  // namespace whence::fuzz
