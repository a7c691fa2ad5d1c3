#include "annotator/onnx_file/data_file.h"

#include <algorithm>

#include "schema/parse_number.h"
#include "schema/result.h"

namespace whence::onnx_file {

namespace fs = std::filesystem;

namespace {

bool is_inside(const fs::path& folder, const fs::path& file) {
  return !folder.empty() && std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

bool is_outside(const std::string& model, const fs::path& file) {
  std::error_code failure;
  const fs::path absolute = fs::absolute(model, failure);
  const fs::path named = fs::weakly_canonical(absolute.parent_path(), failure);
  const fs::path real = fs::weakly_canonical(absolute, failure).parent_path();
  const fs::path found = fs::weakly_canonical(fs::absolute(file, failure), failure);
  // A path that cannot be resolved is empty here, so it is in neither folder.
  return !is_inside(named, found) && !is_inside(real, found);
}

}  // namespace

DataFile find_data_file(const std::string& model, std::string_view location) {
  if (location.empty()) return {{}, DataFault::unnamed};
  const fs::path relative(location);
  if (relative.is_absolute()) return {relative, DataFault::outside};
  DataFile found{fs::path(model).parent_path() / relative};
  if (is_outside(model, found.path)) {
    found.fault = DataFault::outside;
    return found;
  }
  std::error_code failure;
  const fs::file_status status = fs::status(found.path, failure);
  found.fault = !fs::exists(status)            ? DataFault::missing
                : !fs::is_regular_file(status) ? DataFault::no_file
                                               : DataFault::none;
  if (found.fault == DataFault::none) found.size = fs::file_size(found.path, failure);
  return found;
}

fs::path require_data_file(const std::string& model, std::string_view location, const Place& place) {
  const DataFile found = find_data_file(model, location);
  const std::string name(location);
  switch (found.fault) {
    case DataFault::none:
      return found.path;
    case DataFault::unnamed:
      throw Error(Code::corrupt_file, "a tensor is stored in another file, but the model does not name the file",
                  "export the model again", place);
    case DataFault::outside:
      throw Error(Code::outside_folder, "the model keeps weights outside its folder: " + name,
                  "put the data file itself next to the model, and set the location to its file name", place);
    case DataFault::missing:
      throw Error(Code::missing_file, "the model keeps weights in a file that does not exist: " + found.path.string(),
                  "copy the data file next to the model, under its original name", place);
    case DataFault::no_file:
      throw Error(Code::wrong_kind,
                  "the model keeps weights in " + found.path.string() + ", which is not a regular file",
                  "copy the data file next to the model, under its original name", place);
  }
  return found.path;
}

std::optional<std::uint64_t> parse_data_number(std::string_view text) { return parse_number<std::uint64_t>(text); }

}  // namespace whence::onnx_file
