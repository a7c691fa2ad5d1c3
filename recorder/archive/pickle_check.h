// A check of the pickles of an archive before LibTorch reads them. LibTorch's unpickler trusts what it is given: a memo
// index makes it allocate that many entries, a storage may be longer than its record, a list may hold itself. The check
// follows a pickle as the unpickler would, makes nothing of it, and refuses what no pickler writes. It knows no
// LibTorch.
//
// After it, unpickling takes memory and time in proportion to the pickle and to the records that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace whence::recorder::archive {

// Returns the size of a record with the bytes of a storage, by the storage's key; none if there is no such record.
using RecordSize = std::function<std::optional<std::uint64_t>(const std::string& key)>;

// Returns what is wrong, or "". The time grows with the size of the pickle.
std::string fault_in_pickle(std::string_view pickle, const RecordSize& record_size);

}  // namespace whence::recorder::archive
