// UndoJournal: lets several files of a folder be replaced together, or not at all, also when the process is killed in
// the middle or the machine loses power.
//
//   1. the journal is written: which files get a name, and which file has it now
//   2. each file that will be replaced gets a second name
//   3. the new files get their names: the caller does this
//   4. the journal is removed, then the second names
//
// Whoever finds a journal whose writer is dead puts the old files back (leftovers.h). A file that has been changed
// since by another program is never replaced by that: then all stays as it is found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/files/file_identity.h"

namespace whence {

class UndoJournal {
 public:
  struct Change {
    std::string name;  // in the folder, as `old_name`
    FileIdentity fresh;
    std::string old_name = {};
    std::optional<FileIdentity> old = {};  // none: nothing had the name
  };

  explicit UndoJournal(std::string folder) : folder_(std::move(folder)) {}
  ~UndoJournal();
  UndoJournal(UndoJournal&& other) noexcept;
  UndoJournal& operator=(UndoJournal&&) = delete;

  // `target`: in the folder. Throws Error(cannot_write) for a folder.
  void add(const std::string& target, const FileIdentity& fresh);
  void begin();  // steps 1 and 2; throws Error(cannot_write), and undo() is then for the caller to call

  void undo();  // puts back what has not changed since
  bool end();   // step 4; false if the journal cannot be removed, so that the caller has to undo

  // Undoes what a dead writer began, unless another program has changed one of the files since. False if an old file
  // cannot be put back.
  static bool undo_left(const std::string& folder, const std::string& journal);

 private:
  std::string in_folder(const std::string& name) const { return folder_ + "/" + name; }
  std::string text() const;
  static std::optional<UndoJournal> read(const std::string& folder, const std::string& journal);
  bool is_ours(const Change& change) const;
  bool put_back(const Change& change) const;  // false if it cannot

  std::string folder_, path_;
  int fd_ = -1;
  std::vector<Change> changes_;
};

}  // namespace whence
