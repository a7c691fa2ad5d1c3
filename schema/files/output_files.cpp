#include "schema/files/output_files.h"

#include <cerrno>
#include <filesystem>

#include "schema/files/new_file.h"
#include "schema/files/paths.h"
#include "schema/files/temporary_names.h"

namespace whence {

namespace fs = std::filesystem;

namespace {

void sync(const std::deque<FolderLock>& locks) {
  for (const FolderLock& lock : locks) lock.sync();
}

}  // namespace

void OutputFiles::require_new(const std::string& target) const {
  if (!canonical_targets_.contains(place_of(target))) return;
  throw Error(Code::usage, "two outputs would be one file: " + target, "choose another path for one of them",
              {.file = target, .stage = "write"});
}

AtomicFile& OutputFiles::add(const std::string& target) {
  require_new(target);
  std::error_code ignored;
  const bool device = fs::exists(target, ignored) && !fs::is_regular_file(target, ignored);
  if (!device) canonical_targets_.insert(place_of(target));
  return files_.emplace_back(target);
}

void OutputFiles::rely_on(const std::string& file, const FileIdentity& identity) { relied_on_.emplace(file, identity); }

void OutputFiles::require_unchanged() const {
  for (const auto& [file, identity] : relied_on_) {
    if (FileIdentity::of(file) == identity) continue;
    throw Error(Code::cannot_write, file + " was replaced by another process", "run the command again",
                {.file = file, .stage = "write"});
  }
}

std::deque<UndoJournal> OutputFiles::begin_journals(const std::set<std::string>& folders) const {
  std::deque<UndoJournal> journals;
  if (files_.size() < 2) return journals;
  try {
    for (const std::string& folder : folders) {
      UndoJournal& journal = journals.emplace_back(folder);
      for (const AtomicFile& file : files_) {
        if (!file.is_device() && folder_of(file.resolved_target()) == folder)
          journal.add(file.resolved_target(), file.identity());
      }
      journal.begin();
    }
  } catch (const Error&) {
    for (UndoJournal& journal : journals) journal.undo();
    throw;
  }
  return journals;
}

void OutputFiles::give_names(const std::set<std::string>& folders, const std::deque<FolderLock>& locks) {
  std::deque<UndoJournal> journals = begin_journals(folders);
  try {
    if (!journals.empty()) sync(locks);
    for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
      if (!file->is_device()) file->give_name();
    }
    for (UndoJournal& journal : journals) {
      if (!journal.end()) fail_to_write(files_.front().target(), EIO);
    }
  } catch (const Error&) {
    for (UndoJournal& journal : journals) journal.undo();
    throw;
  }
  sync(locks);
}

void OutputFiles::commit() {
  std::set<std::string> folders;  // sorted, so that two processes do not wait for each other
  for (AtomicFile& file : files_) {
    file.finish();
    if (!file.is_device() && !file.is_draft()) folders.insert(folder_of(file.resolved_target()));
  }
  std::deque<FolderLock> locks;
  for (const std::string& folder : folders) locks.emplace_back(folder);
  const PostponedStops until_named;
  require_unchanged();
  give_names(folders, locks);
  files_.clear();
}

}  // namespace whence
