#include "schema/files/undo_journal.h"

#include <cerrno>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "schema/files/files.h"
#include "schema/files/new_file.h"
#include "schema/files/temporary_names.h"

namespace whence {
namespace {

// Fields end with '/', which no file name contains. The last field marks a complete journal: files are renamed only
// after it is written.
constexpr char separator = '/';
constexpr std::string_view last_field = "complete";
constexpr std::size_t fields_per_change = 4, largest = std::size_t{1} << 22;

std::string to_text(const FileIdentity& identity) {
  std::ostringstream text;
  text << identity.inode << ' ' << identity.size << ' ' << identity.seconds << ' ' << identity.nanoseconds;
  return text.str();
}

std::optional<FileIdentity> parse_identity(const std::string& text) {
  FileIdentity identity;
  std::istringstream in(text);
  if (!(in >> identity.inode >> identity.size >> identity.seconds >> identity.nanoseconds)) return std::nullopt;
  return identity;
}

std::vector<std::string> fields_of(const std::string& path) {
  std::vector<std::string> fields;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return fields;
  std::string text(largest, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  ::close(fd);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    fields.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return fields;
}

}  // namespace

UndoJournal::UndoJournal(UndoJournal&& other) noexcept
    : folder_(std::move(other.folder_)),
      path_(std::exchange(other.path_, {})),
      fd_(std::exchange(other.fd_, -1)),
      changes_(std::move(other.changes_)) {}

UndoJournal::~UndoJournal() {
  if (fd_ >= 0) ::close(fd_);
}

void UndoJournal::add(const std::string& target, const FileIdentity& fresh) {
  Change change{.name = base_name(target), .fresh = fresh, .old = FileIdentity::of(target)};
  if (!change.old && ::access(target.c_str(), F_OK) == 0) fail_to_write(target, EISDIR);
  changes_.push_back(std::move(change));
}

void UndoJournal::begin() {
  fd_ = create_locked(folder_, temporary::journal, path_);
  if (fd_ < 0) fail_to_write(in_folder(changes_.front().name), errno);
  for (Change& change : changes_) {
    if (change.old) change.old_name = base_name(new_temporary_path(folder_, temporary::old_file));
  }
  const std::string content = text();
  write_all(fd_, content.data(), content.size(), path_);
  sync_file(fd_, path_);
  for (const Change& change : changes_) {
    if (!change.old) continue;
    const std::string target = in_folder(change.name), kept = in_folder(change.old_name);
    // Without hard links, the old file is renamed shortly before the new file takes its name.
    if (::link(target.c_str(), kept.c_str()) == 0 || ::rename(target.c_str(), kept.c_str()) == 0) continue;
    fail_to_write(target, errno);
  }
}

std::string UndoJournal::text() const {
  std::string text;
  for (const Change& change : changes_) {
    for (const std::string& field :
         {change.name, change.old_name, to_text(change.fresh), change.old ? to_text(*change.old) : ""}) {
      text += field + separator;
    }
  }
  return text.append(last_field);
}

std::optional<UndoJournal> UndoJournal::read(const std::string& folder, const std::string& journal) {
  const std::vector<std::string> fields = fields_of(folder + "/" + journal);
  if (fields.empty() || fields.back() != last_field || fields.size() % fields_per_change != 1) return std::nullopt;
  UndoJournal found(folder);
  found.path_ = folder + "/" + journal;
  for (std::size_t at = 0; at + fields_per_change < fields.size(); at += fields_per_change) {
    const auto fresh = parse_identity(fields[at + 2]);
    if (!fresh) return std::nullopt;
    found.changes_.push_back({fields[at], *fresh, fields[at + 1], parse_identity(fields[at + 3])});
  }
  return found;
}

// Returns true if the target is the old file, the new file, or missing while the old file has its second name.
bool UndoJournal::is_ours(const Change& change) const {
  const std::optional<FileIdentity> now = FileIdentity::of(in_folder(change.name));
  if (!now) return ::access(in_folder(change.name).c_str(), F_OK) != 0;
  return now == change.fresh || now == change.old;
}

bool UndoJournal::put_back(const Change& change) const {
  const std::string target = in_folder(change.name), kept = in_folder(change.old_name);
  const std::optional<FileIdentity> now = FileIdentity::of(target);
  if (now == change.old) return true;
  if (!change.old) return ::unlink(target.c_str()) == 0;
  return FileIdentity::of(kept) == change.old && ::rename(kept.c_str(), target.c_str()) == 0;
}

void UndoJournal::undo() {
  bool complete = true;
  for (const Change& change : changes_) {
    if (is_ours(change)) complete &= put_back(change);
  }
  if (complete) end();  // otherwise the next process tries again
}

bool UndoJournal::end() {
  // An empty journal undoes nothing.
  if (!path_.empty() && ::unlink(path_.c_str()) != 0 && ::ftruncate(fd_, 0) != 0) return false;
  for (const Change& change : changes_) {
    if (change.old) ::unlink(in_folder(change.old_name).c_str());
  }
  return true;
}

bool UndoJournal::undo_left(const std::string& folder, const std::string& journal) {
  const std::optional<UndoJournal> found = read(folder, journal);
  if (!found) return true;  // an incomplete journal: no file was renamed
  for (const Change& change : found->changes_) {
    if (!found->is_ours(change)) return true;
  }
  bool complete = true;
  for (const Change& change : found->changes_) complete &= found->put_back(change);
  return complete;
}

}  // namespace whence
