// Runs subcommands and exports the valid model, for targets that test more than a reader.
#include <iostream>
#include <streambuf>

#include "tests/fuzz/target.h"
#include "tools/whence/command.h"
#include "whence/export.h"

namespace whence::fuzz {
namespace {

class NullBuffer : public std::streambuf {
 protected:
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
};

// Discards the command's output during its lifetime.
class OutputSilencer {
 public:
  OutputSilencer() : out_(std::cout.rdbuf(&null_buffer_)), error_(std::cerr.rdbuf(&null_buffer_)) {}
  ~OutputSilencer() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(error_);
  }
  OutputSilencer(const OutputSilencer&) = delete;
  OutputSilencer& operator=(const OutputSilencer&) = delete;

 private:
  NullBuffer null_buffer_;
  std::streambuf *out_, *error_;
};

const Command* find_command(std::string_view name) {
  for (const Command* command :
       {&annotate_command, &diff_command, &dot_command, &explain_command, &export_command, &extract_command,
        &functions_command, &graphml_command, &inline_command, &model_explorer_command, &ops_command, &place_command,
        &profile_command, &report_command, &select_command, &show_command, &strip_command, &validate_command}) {
    if (name == command->name) return command;
  }
  return nullptr;
}

}  // namespace

void run_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> texts = arguments;
  const Command* command = find_command(texts.front());
  require(command != nullptr, "a target names an unknown subcommand");
  std::vector<char*> pointers;
  for (std::size_t i = 1; i < texts.size(); ++i) pointers.push_back(texts[i].data());
  const OutputSilencer silencer;
  command->run(static_cast<int>(pointers.size()), pointers.data());
}

const ValidModel& valid_model() {
  static const ValidModel valid = [] {
    ValidModel files{WHENCE_SOURCE_DIR "/tests/torch_versions/fixtures/2.13.0/dynamic.pt2", scratch("valid.onnx"),
                     scratch("valid.whence.json")};
    export_archive(files.archive, files.model, {.sidecar = files.sidecar});
    return files;
  }();
  return valid;
}

}  // namespace whence::fuzz
