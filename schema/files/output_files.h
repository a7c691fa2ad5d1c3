// OutputFiles: the files that one command writes. They get their names together when all are complete, or none does:
// when one of them cannot be written, everything stands as it did before. A process that is killed while they get their
// names leaves a journal, from which the next run that writes to the folder puts the old files back (undo_journal.h).
//
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
  // Throws Error: what AtomicFile throws; usage for a file that is added twice, other than a device. The reference
  // stays valid. Files get their names in the reverse order: what is referred to is added after what refers to it, so
  // that a run that is killed leaves no file that refers to one that is not there.
  AtomicFile& add(const std::string& target);

  // Throws Error(usage) for a file that was added, other than a device.
  void require_new(const std::string& target) const;

  // A file that is there already, and that what is written refers to: commit() throws Error(cannot_write) if another
  // process has replaced it by then.
  void rely_on(const std::string& file, const FileIdentity& identity);

  // Throws Error(cannot_write) after it has put everything back.
  void commit();

 private:
  void require_unchanged() const;
  std::deque<UndoJournal> begin_journals(const std::set<std::string>& folders) const;
  void give_names(const std::set<std::string>& folders, const std::deque<FolderLock>& locks);

  std::deque<AtomicFile> files_;
  std::map<std::string, FileIdentity> relied_on_;
  std::set<std::string> places_;  // links followed
};

}  // namespace whence
