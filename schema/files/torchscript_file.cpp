// Checks the first bytes and the directory of a file that should be a TorchScript archive.
#include "schema/files/torchscript_file.h"

#include <algorithm>
#include <string_view>

#include "schema/result.h"

namespace whence {

namespace {

// The end-of-central-directory record is in the last 64 KiB of every zip file.
constexpr std::size_t longest_end = 66000;

}  // namespace

void reject_other_than_torchscript(const MappedFile& file) {
  const auto reject = [&](Code code, const char* message, const char* remedy) {
    throw Error(code, message, remedy, {.file = file.path(), .stage = "read"});
  };
  constexpr const char* save = "save the model with torch.jit.save(torch.jit.trace(model, inputs), 'model.pt')";
  const std::string_view text = file.text();
  if (!text.starts_with("PK\x03\x04")) {
    if (text.starts_with("\x08") && text.find("onnx") != std::string_view::npos) {
      reject(Code::wrong_kind, "this is an ONNX file, not a TorchScript archive",
             "pass the archive that torch.jit.save wrote");
    }
    reject(Code::wrong_kind, "not a TorchScript archive: it does not begin as a zip file does", save);
  }
  const std::string_view tail = text.substr(text.size() - std::min(text.size(), longest_end));
  if (tail.find("PK\x05\x06") == std::string_view::npos) {
    reject(Code::truncated_file, "the archive is cut off: its table of contents is missing",
           "copy or download the file again");
  }
  // The table of contents, which lists the members, follows their bytes.
  const auto named = [&](std::string_view member) { return tail.find(member) != std::string_view::npos; };
  if (named("/data.pkl") && !named("/constants.pkl") && !named("/code/")) {
    reject(Code::wrong_kind, "this zip file holds no TorchScript program (torch.save writes weights only)", save);
  }
}

}  // namespace whence
