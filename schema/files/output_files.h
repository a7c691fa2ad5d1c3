// OutputFiles: the files that one command writes. They are renamed to their targets together once all are complete; if
// one of them cannot be written, all targets stay unchanged. A process that is killed while it renames them leaves a
// journal, from which the next process that writes to the folder restores the old files (undo_journal.h).
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "schema/files/files.h"
#include "schema/files/locks.h"
#include "schema/files/undo_journal.h"

namespace whence {

class OutputFiles {
 public:
  // Throws the errors of AtomicFile, and Error(usage) for a file that was already added and is not a device. The
  // reference stays valid. Files are renamed in reverse order, so add a file before the files that it refers to: a
  // killed process then leaves no file with a missing reference.
  AtomicFile& add(const std::string& target);

  // Throws Error(usage) for a file that was already added and is not a device.
  void require_new(const std::string& target) const;

  // Adds an existing file that the outputs refer to: commit() throws Error(cannot_write) if another process has
  // replaced it.
  void rely_on(const std::string& file, const FileIdentity& identity);

  // Throws Error(cannot_write) after restoring all targets.
  void commit();

 private:
  void require_unchanged() const;
  std::deque<UndoJournal> begin_journals(const std::set<std::string>& folders) const;
  void give_names(const std::set<std::string>& folders, const std::deque<FolderLock>& locks);

  std::deque<AtomicFile> files_;
  std::map<std::string, FileIdentity> relied_on_;
  std::set<std::string> canonical_targets_;
};

}  // namespace whence
