#include "annotator/app/tool_folder.h"

#include <algorithm>
#include <filesystem>

#include "annotator/onnx_file/data_file.h"
#include "schema/files/files.h"

namespace whence::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* in_mark = "{in}";
constexpr const char* out_mark = "{out}";

void replace_all(std::string& text, const std::string& mark, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += by.size()) {
    text.replace(at, mark.size(), by);
  }
}

void copy_file(const std::string& from, const std::string& to) {
  AtomicFile file(to);
  file.copy(from);
  file.commit();
}

// ONNX files straight in the folder, by their ending, sorted; without those in `but`.
std::vector<std::string> models_in(const std::string& folder, const std::vector<std::string>& but = {}) {
  std::vector<std::string> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string path = entry->path().string();
    if (entry->path().extension() == ".onnx" && std::ranges::find(but, path) == but.end()) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

[[noreturn]] void fail_to_find(const std::string& message, const std::string& remedy) {
  throw Error(Code::tool_failed, message, remedy, {.stage = "run the tool"});
}

}  // namespace

ToolFolder::ToolFolder(const std::string& model, const onnx_file::DataFiles& data, const std::string& beside)
    : scratch_(beside), model_(model) {
  folder_ = fs::absolute(scratch_.path()).lexically_normal().string();
  const std::string name = base_name(model);
  in_ = folder_ + "/" + name;
  copy_file(model, in_);
  add_data(model, data);
  // Data files are called after their model, and no file of the tool takes the name of one that it reads.
  std::string output = base_name(beside);
  std::error_code unknown;  // a name that cannot be looked at may be taken
  while (fs::exists(folder_ + "/" + output, unknown) || output.starts_with(name)) output = "out_" + output;
  out_ = folder_ + "/" + output;
}

void ToolFolder::add_data(const std::string& model, const onnx_file::DataFiles& data) {
  for (const auto& [location, end] : data.locations) {
    const Place place{.file = model, .stage = "read"};
    const fs::path file = onnx_file::require_data_file(model, location, place);
    const fs::path copy = (fs::path(folder_) / location).lexically_normal();
    std::error_code ignored;  // the copy reports it
    fs::create_directories(copy.parent_path(), ignored);
    copy_file(file.string(), copy.string());
  }
}

std::vector<std::string> ToolFolder::filled_in(const std::vector<std::string>& arguments) const {
  std::vector<std::string> filled = arguments;
  for (std::string& argument : filled) {
    replace_all(argument, in_mark, in_);
    replace_all(argument, out_mark, out_);
  }
  return filled;
}

std::string ToolFolder::result(const std::vector<std::string>& arguments) const {
  std::error_code ignored;
  const std::vector<std::string> others = models_in(folder_, {in_, out_});
  if (!has_placeholder(arguments, out_mark)) {
    if (!fs::is_regular_file(in_, ignored)) {
      fail_to_find("the tool removed the file that it was to change", "give the place for its file as {out}");
    }
    return others.size() == 1 && same_content(in_, model_) ? others.front() : in_;
  }
  if (fs::is_regular_file(out_, ignored)) return out_;
  if (fs::is_directory(out_, ignored)) {
    const std::vector<std::string> models = models_in(out_);
    if (models.size() == 1) return models.front();
    fail_to_find("the tool made a folder with " + std::to_string(models.size()) + " ONNX files",
                 "run it by a script that copies the right one to its {out}");
  }
  std::string left;
  for (const std::string& each : others) left += (left.empty() ? "; it left " : ", ") + base_name(each);
  fail_to_find("the tool ended well and left no file where {out} is" + left,
               others.empty() ? "see that its arguments name {out} as the file to write"
                              : "see that its arguments name {out} as the file to write, ending and all");
}

void ToolFolder::clear() const {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_, ignored); !ignored && entry != fs::directory_iterator();
       entry.increment(ignored)) {
    std::error_code stays;
    fs::remove_all(entry->path(), stays);
  }
}

Diagnostics ToolFolder::as_seen(Diagnostics diagnostics) const {
  for (Diagnostic& each : diagnostics) {
    for (std::string* text : {&each.message, &each.where.file, &each.remedy}) replace_all(*text, folder_ + "/", "");
  }
  return scratch_.as_seen(std::move(diagnostics));
}

bool has_placeholder(const std::vector<std::string>& arguments, const std::string& placeholder) {
  return std::ranges::any_of(arguments, [&](const std::string& each) { return each.find(placeholder) != each.npos; });
}

std::string shell_text(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n\"'\\$&|;<>()*?[]#~`!") == std::string::npos;
    std::string quoted = argument;
    replace_all(quoted, "'", "'\\''");
    text += (text.empty() ? "" : " ") + (plain ? argument : "'" + quoted + "'");
  }
  return text;
}

}  // namespace whence::app
