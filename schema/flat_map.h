// Hash tables that hold their entries in one array. In a graph of 100,000 nodes every name is looked up in several
// tables, and what that costs is memory fetched: the standard's tables fetch a bucket, a node, and its neighbours.
//
// Iterators and references to entries are good until the next insertion. Source: tsl::robin_map.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>
#include <xxhash.h>

namespace whence {

// Strings are found by views of them.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }
};

// An address is the same in its last bits as every other of its kind, and those are what a table goes by.
struct AddressHash {
  std::size_t operator()(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15U >> 32U;
  }
};

template <class Key>
inline constexpr bool is_text = std::is_convertible_v<const Key&, std::string_view>;

template <class Key>
using FlatHash = std::conditional_t<is_text<Key>, StringHash,
                                    std::conditional_t<std::is_pointer_v<Key>, AddressHash, std::hash<Key>>>;

// With the hash kept beside each string: growing need not read them all again.
template <class Key, class Content>
using FlatMap =
    tsl::robin_map<Key, Content, FlatHash<Key>, std::equal_to<>, std::allocator<std::pair<Key, Content>>, is_text<Key>>;

template <class Key>
using FlatSet = tsl::robin_set<Key, FlatHash<Key>, std::equal_to<>, std::allocator<Key>, is_text<Key>>;

}  // namespace whence
