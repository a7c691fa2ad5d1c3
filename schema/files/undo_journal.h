// UndoJournal: replaces several files of a folder together or not at all, even if the process is killed or the machine
// loses power.
//
//   1. write the journal: the target names, and the identities of the new and the old files
//   2. give each old file a second name
//   3. rename the new files to their targets (done by the caller)
//   4. remove the journal, then the second names
//
// A later process that finds a journal with a dead writer restores the old files (leftovers.h). It restores nothing if
// another program has changed one of the files since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/files/file_identity.h"

namespace whence {

class UndoJournal {
 public:
  struct Change {
    std::string name;  // both names are relative to the folder
    FileIdentity fresh;
    std::string old_name = {};
    std::optional<FileIdentity> old = {};  // nullopt if the target did not exist
  };

  explicit UndoJournal(std::string folder) : folder_(std::move(folder)) {}
  ~UndoJournal();
  UndoJournal(UndoJournal&& other) noexcept;
  UndoJournal& operator=(UndoJournal&&) = delete;

  // `target` must be in the folder. Throws Error(cannot_write) if it is a folder itself.
  void add(const std::string& target, const FileIdentity& fresh);
  void begin();  // steps 1 and 2; throws Error(cannot_write), after which the caller must call undo()

  void undo();  // restores the old files whose targets have not changed since
  bool end();   // step 4; false if the journal cannot be removed, so that the caller must undo

  // Undoes the incomplete commit of a dead writer, unless another program has changed one of the files since. Returns
  // false if an old file cannot be restored.
  static bool undo_left(const std::string& folder, const std::string& journal);

 private:
  std::string in_folder(const std::string& name) const { return folder_ + "/" + name; }
  std::string text() const;
  static std::optional<UndoJournal> read(const std::string& folder, const std::string& journal);
  bool is_ours(const Change& change) const;
  bool put_back(const Change& change) const;  // false on failure

  std::string folder_, path_;
  int fd_ = -1;
  std::vector<Change> changes_;
};

}  // namespace whence
