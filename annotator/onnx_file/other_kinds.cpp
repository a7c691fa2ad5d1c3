#include "annotator/onnx_file/other_kinds.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace whence::onnx_file {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::size_t offset;
  std::string_view bytes;
  OtherKind kind;
};

constexpr std::string_view decompress = "decompress it first";
constexpr std::string_view download_again = "download the file itself: this is the answer of a web server";

// A longer beginning precedes its own prefix.
constexpr std::array beginnings = {
    Beginning{0,
              "PK\x03\x04"sv,
              {"a zip archive", "`whence export` converts an archive of torch.jit.save or torch.export.save"}},
    Beginning{0, "version https://git-lfs"sv, {"a pointer of Git LFS", "`git lfs pull` gets the file itself"}},
    Beginning{0, "<!DOCTYPE html"sv, {"a web page", download_again}},
    Beginning{0, "<!doctype html"sv, {"a web page", download_again}},
    Beginning{0, "<html"sv, {"a web page", download_again}},
    Beginning{0, "<?xml"sv, {"XML", "name an .onnx file"}},
    Beginning{0, "{"sv, {"JSON", "pass a sidecar with --sidecar, or to `whence show`"}},
    Beginning{0, "["sv, {"JSON", "pass a sidecar with --sidecar, or to `whence show`"}},
    Beginning{4, "ORTM"sv, {"a model in ONNX Runtime's own format", "pass the .onnx file that it was made from"}},
    Beginning{4, "TFL3"sv, {"a TensorFlow Lite model", "name an .onnx file"}},
    Beginning{0, "GGUF"sv, {"a GGUF weight file", "name an .onnx file"}},
    Beginning{0, "\x89HDF"sv, {"an HDF5 file", "name an .onnx file"}},
    Beginning{0, "\x93NUMPY"sv, {"a NumPy array", "name an .onnx file"}},
    Beginning{0, "\x1f\x8b"sv, {"compressed by gzip", decompress}},
    Beginning{0, "\x28\xb5\x2f\xfd"sv, {"compressed by zstd", decompress}},
    Beginning{0,
              "\xfd"
              "7zXZ"sv,
              {"compressed by xz", decompress}},
    Beginning{0, "BZh"sv, {"compressed by bzip2", decompress}},
    Beginning{0,
              "\x7f"
              "ELF"sv,
              {"a program or library", "name an .onnx file"}},
    Beginning{0, "\x89PNG"sv, {"an image", "name an .onnx file"}},
    Beginning{0, "%PDF"sv, {"a PDF document", "name an .onnx file"}},
};

// True for any pickle of protocol 2 to 5, such as the files of torch.save before 1.6.
bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

// True for an eight-byte length followed by a JSON header.
bool is_safetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes[8] == '{' && bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4) &&
         (bytes[9] == '"' || bytes[9] == '}');
}

// Returns true if the first bytes contain no control characters except white space.
bool is_text(std::string_view bytes) {
  constexpr std::size_t checked_bytes = 512;
  return std::ranges::all_of(bytes.substr(0, checked_bytes), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  });
}

}  // namespace

std::optional<OtherKind> other_kind(std::string_view bytes) {
  for (const Beginning& each : beginnings) {
    if (bytes.substr(std::min(each.offset, bytes.size())).starts_with(each.bytes)) return each.kind;
  }
  if (is_pickle(bytes)) {
    return OtherKind{"a pickle, as torch.save writes", "load it in Python and export the model"};
  }
  if (is_safetensors(bytes)) return OtherKind{"weights in the safetensors format", "name an .onnx file"};
  if (is_text(bytes)) return OtherKind{"text", "name an .onnx file"};
  return std::nullopt;
}

// Compares with the tags of ModelProto's fields (onnx/onnx.proto): ir_version and model_version are numbers, all others
// have a length. Field numbers from 16 on take two bytes.
bool begins_as_onnx(std::string_view bytes) {
  constexpr std::array tags = {"\x08"sv, "\x12"sv, "\x1a"sv, "\x22"sv,     "\x28"sv,     "\x32"sv,
                               "\x3a"sv, "\x42"sv, "\x72"sv, "\xa2\x01"sv, "\xca\x01"sv, "\xd2\x01"sv};
  return std::ranges::any_of(tags, [&](std::string_view tag) { return bytes.starts_with(tag); });
}

}  // namespace whence::onnx_file
