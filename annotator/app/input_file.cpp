#include "annotator/app/input_file.h"

#include "annotator/app/recorder_library.h"
#include "annotator/pt2/exported_program.h"
#include "schema/files/files.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

FileKind kind_of_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return FileKind::sidecar;
  const bool zipped = text.starts_with("PK");
  const bool archive = (zipped && !path.ends_with(".onnx")) || pt2::is_exported_program(path);
  return archive ? FileKind::archive : FileKind::onnx;
}

Program read_program(const std::string& path, Diagnostics& notes) {
  if (kind_of_file(path) == FileKind::sidecar) return unwrap(read_sidecar(path), notes).program;
  ReadOptions options;
  options.path = path;
  options.run = false;
  options.texts = false;
  return read_archive(options, notes);
}

}  // namespace whence::app
