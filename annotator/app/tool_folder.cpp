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

// Returns the .onnx files directly in the folder, sorted, without `excluded`.
std::vector<std::string> models_in(const std::string& folder, const std::vector<std::string>& excluded = {}) {
  std::vector<std::string> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string path = entry->path().string();
    if (entry->path().extension() == ".onnx" && std::ranges::find(excluded, path) == excluded.end())
      found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

[[noreturn]] void fail_to_find(const std::string& message, const std::string& remedy) {
  throw Error(Code::tool_failed, message, remedy, {.stage = "run the tool"});
}

}  // namespace

ToolFolder::ToolFolder(const std::string& model, const onnx_file::DataFiles& data, const std::string& output)
    : scratch_(output), model_(model) {
  folder_ = fs::absolute(scratch_.path()).lexically_normal().string();
  const std::string name = base_name(model);
  in_ = folder_ + "/" + name;
  copy_file(model, in_);
  add_data(model, data);
  // Data files are named after their model, so the output's name must not start with the input's name.
  std::string out_name = base_name(output);
  std::error_code unknown;  // a name that cannot be checked is accepted
  while (fs::exists(folder_ + "/" + out_name, unknown) || out_name.starts_with(name)) out_name = "out_" + out_name;
  out_ = folder_ + "/" + out_name;
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
      fail_to_find("the tool removed the file that it was to change in place", "pass the path of its output as {out}");
    }
    return others.size() == 1 && same_content(in_, model_) ? others.front() : in_;
  }
  if (fs::is_regular_file(out_, ignored)) return out_;
  if (fs::is_directory(out_, ignored)) {
    const std::vector<std::string> models = models_in(out_);
    if (models.size() == 1) return models.front();
    fail_to_find("the tool made a folder with " + std::to_string(models.size()) + " ONNX files",
                 "run it in a script that copies the right file to {out}");
  }
  std::string other_files;
  for (const std::string& each : others) other_files += (other_files.empty() ? "; it left " : ", ") + base_name(each);
  fail_to_find("the tool succeeded but wrote no file to {out}" + other_files,
               others.empty() ? "check that its arguments name {out} as the file to write"
                              : "check that its arguments name {out}, with its extension, as the file to write");
}

void ToolFolder::clear() const {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder_, ignored); !ignored && entry != fs::directory_iterator();
       entry.increment(ignored)) {
    std::error_code stays;
    fs::remove_all(entry->path(), stays);
  }
}

Diagnostics ToolFolder::with_user_paths(Diagnostics diagnostics) const {
  for (Diagnostic& each : diagnostics) {
    for (std::string* text : {&each.message, &each.where.file, &each.remedy}) replace_all(*text, folder_ + "/", "");
  }
  return scratch_.with_user_paths(std::move(diagnostics));
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
