// OutputFiles: the files that one command writes. They get their names together when all are complete, or none does:
// when one of them cannot be written, everything stands as it did before.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "schema/files/files.h"

namespace whence {

class OutputFiles {
 public:
  // Throws Error: what AtomicFile throws; usage for a file that is added twice, other than a device. The reference
  // stays valid. Files get their names in the reverse order: what is referred to is added after what refers to it, so
  // that a run that is killed leaves no file that refers to one that is not there.
  AtomicFile& add(const std::string& target);

  // Throws Error(cannot_write) after it has put everything back.
  void commit();

 private:
  std::deque<AtomicFile> files_;
  std::set<std::string> places_;  // links followed
};

}  // namespace whence
