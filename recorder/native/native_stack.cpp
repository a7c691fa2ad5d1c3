// Takes native stacks and looks up their functions, with libbacktrace if it is available, else with dladdr().
#include "recorder/native/native_stack.h"

#include <algorithm>
#include <cstdlib>

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#ifdef WHENCE_BACKTRACE
#include <backtrace.h>
#endif

#include "schema/files/files.h"

namespace whence::native {

namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool holds(std::uintptr_t address) const { return address >= begin && address < end; }
};

// Address ranges of shared libraries that are not the user's.
struct Libraries {
  Range own;                 // this library
  std::vector<Range> torch;  // LibTorch and the C and C++ runtimes
};

int add_library(dl_phdr_info* info, std::size_t, void* context) {
  auto& libraries = *static_cast<Libraries*>(context);
  Range range{~std::uintptr_t{0}, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    range.begin = std::min<std::uintptr_t>(range.begin, info->dlpi_addr + header.p_vaddr);
    range.end = std::max<std::uintptr_t>(range.end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  const std::string name = base_name(info->dlpi_name);
  if (range.holds(reinterpret_cast<std::uintptr_t>(&add_library))) {
    libraries.own = range;
  } else if (name.starts_with("libtorch") || name.starts_with("libc10") || name.starts_with("libstdc++") ||
             name.starts_with("libc.so") || name.starts_with("libgomp") || name.starts_with("libgcc_s")) {
    libraries.torch.push_back(range);
  }
  return 0;
}

const Libraries& libraries() {
  static const Libraries found = [] {
    Libraries libraries;
    dl_iterate_phdr(&add_library, &libraries);
    return libraries;
  }();
  return found;
}

std::vector<Range>& excluded_code() {
  static std::vector<Range> ranges;
  return ranges;
}

struct Walk {
  NativeStack frames;
  bool outside = false;  // true after the frames of this library at the top
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  const Libraries& excluded = libraries();
  const std::uintptr_t address = _Unwind_GetIP(context) - 1;  // within the call instruction, not after it
  const auto holds = [&](const Range& range) { return range.holds(address); };
  if (excluded.own.holds(address)) return walk.outside ? _URC_END_OF_STACK : _URC_NO_REASON;
  walk.outside = true;
  if (std::any_of(excluded.torch.begin(), excluded.torch.end(), holds)) return _URC_NO_REASON;
  if (is_excluded(reinterpret_cast<const void*>(address))) {
    walk.outside = false;  // an interposed layer: it belongs to this library, and the model called it
    return _URC_NO_REASON;
  }
  walk.frames.push_back(
      {address, reinterpret_cast<std::uintptr_t>(_Unwind_FindEnclosingFunction(reinterpret_cast<void*>(address))),
       _Unwind_GetCFA(context)});
  return _URC_NO_REASON;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

}  // namespace

NativeStack take_native_stack() {
  Walk walk;
  _Unwind_Backtrace(&visit, &walk);
  return std::move(walk.frames);
}

void exclude_code(const void* begin, const void* end) {
  excluded_code().push_back({reinterpret_cast<std::uintptr_t>(begin), reinterpret_cast<std::uintptr_t>(end)});
}

bool is_excluded(const void* address) {
  return std::any_of(excluded_code().begin(), excluded_code().end(),
                     [&](const Range& range) { return range.holds(reinterpret_cast<std::uintptr_t>(address)); });
}

std::string function_name(std::string text) {
  // Removes argument lists. Brackets that belong to names are replaced with control characters until the end.
  std::string plain;
  int angle = 0, round = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 21, "(anonymous namespace)") == 0 && round == 0) {
      plain += angle == 0 ? "\x01" : "(anonymous namespace)";
      i += 20;
      continue;
    }
    if (text.compare(i, 10, "operator()") == 0 && round == 0) {
      plain += angle == 0 ? "\x02" : "operator()";
      i += 9;
      continue;
    }
    const char c = text[i];
    if (c == '(' && angle == 0) ++round;
    if (c == '<' && round == 0) ++angle;
    if (round == 0) plain += c == ' ' && angle > 0 ? '\x03' : c;
    if (c == '>' && round == 0 && angle > 0) --angle;
    if (c == ')' && angle == 0 && round > 0) --round;
  }
  plain = plain.substr(0, plain.find(" [clone"));  // ".cold" and ".isra" parts of a function
  for (const std::string_view qualifier : {" const", " &", " &&"}) {
    if (plain.ends_with(qualifier)) plain = plain.substr(0, plain.size() - qualifier.size());
  }
  if (const auto space = plain.rfind(' '); space != std::string::npos) plain = plain.substr(space + 1);  // return type
  std::string name;
  for (const char c : plain) {
    if (c == '\x01') {
      name += "(anonymous namespace)";
    } else if (c == '\x02') {
      name += "operator()";
    } else {
      name += c == '\x03' ? ' ' : c;
    }
  }
  return name;
}

namespace {

// Returns "Type::forward" for a library function that calls the forward of a user's type, because forward may have been
// inlined into it. Returns other functions unchanged.
std::string calling_forward(const std::string& function) {
  for (const std::string_view caller : {"AnyModuleHolder<", "whence::native::forward_of<"}) {
    const std::size_t at = function.find(caller);
    if (at == std::string::npos) continue;
    int depth = 0;
    std::size_t end = at + caller.size();
    for (; end < function.size() && (depth > 0 || (function[end] != ',' && function[end] != '>')); ++end) {
      depth += function[end] == '<' ? 1 : function[end] == '>' ? -1 : 0;
    }
    const std::string type = function.substr(at + caller.size(), end - at - caller.size());
    if (!type.starts_with("torch::")) return type + "::forward";
  }
  return function;
}

}  // namespace

bool is_in_headers(const std::string& function) {
  for (const std::string_view space : {"torch::", "at::", "c10::", "std::", "whence::", "__gnu_cxx::", "decltype("}) {
    if (function.starts_with(space)) return true;
  }
  return false;
}

#ifdef WHENCE_BACKTRACE

namespace {

// libbacktrace's state caches debug information and symbol tables, and is meant to be created once.
backtrace_state* state() {
  static backtrace_state* const made =
      backtrace_create_state(nullptr, /*threaded=*/1, [](void*, const char*, int) {}, nullptr);
  return made;
}

int add_line(void* context, std::uintptr_t, const char* file, int line, const char* function) {
  if (function == nullptr && file == nullptr) return 0;
  static_cast<std::vector<Frame>*>(context)->push_back(
      {file == nullptr ? "" : file, line, function == nullptr ? "" : function_name(demangled(function))});
  return 0;
}

void name_symbol(void* context, std::uintptr_t, const char* name, std::uintptr_t, std::uintptr_t) {
  if (name != nullptr) *static_cast<std::string*>(context) = demangled(name);
}

}  // namespace

Symbols::Symbols() = default;

const std::vector<Frame>& Symbols::at(std::uintptr_t site) {
  const auto [entry, fresh] = cache_.emplace(site, std::vector<Frame>());
  if (!fresh) return entry->second;
  std::vector<Frame>& frames = entry->second;
  const auto ignore = [](void*, const char*, int) {};
  backtrace_pcinfo(state(), site, &add_line, ignore, &frames);
  std::string symbol;
  backtrace_syminfo(state(), site, &name_symbol, ignore, &symbol);
  if (symbol.empty()) return frames;
  if (frames.empty()) {
    frames.push_back({"", 0, calling_forward(function_name(symbol))});
  } else {
    // Takes the outermost function's name from the symbol table: debug information may lack its class or template
    // arguments.
    frames.back().function = function_name(symbol);
  }
  return frames;
}

#else

Symbols::Symbols() = default;

const std::vector<Frame>& Symbols::at(std::uintptr_t site) {
  const auto [entry, fresh] = cache_.emplace(site, std::vector<Frame>());
  Dl_info found{};
  if (fresh && dladdr(reinterpret_cast<void*>(site), &found) != 0 && found.dli_sname != nullptr) {
    entry->second.push_back({"", 0, calling_forward(function_name(demangled(found.dli_sname)))});
  }
  return entry->second;
}

#endif

}  // namespace whence::native
