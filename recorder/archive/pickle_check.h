// Checks the pickles of an archive before LibTorch reads them. LibTorch's unpickler trusts its input: a memo index
// makes it allocate that many entries, a storage may be longer than its record, a list may contain itself. The check
// executes the same instructions without building objects, and refuses anything that no pickler writes. It does not
// depend on LibTorch.
//
// A pickle that passes takes memory and time in proportion to its size and to the records that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace whence::recorder::archive {

// Returns the size of the record with the bytes of a storage, by the storage's key; none if there is no such record.
using RecordSize = std::function<std::optional<std::uint64_t>(const std::string& key)>;

// Returns a description of the first fault, or "". The time is proportional to the size of the pickle.
std::string first_pickle_fault(std::string_view pickle, const RecordSize& record_size);

}  // namespace whence::recorder::archive
