#include "annotator/report/page_parts.h"

#include <algorithm>
#include <bit>

#include <zlib.h>

#include "generated/report_page.h"
#include "schema/sidecar/base64.h"

namespace whence::report {
namespace {

// Returns "'sha256-...'" for a hexadecimal digest, as content security policies require.
std::string policy_source(std::string_view hexadecimal) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(hexadecimal[i]) << 4U | digit(hexadecimal[i + 1])));
  }
  return "'sha256-" + to_base64(bytes) + "'";
}

std::string policy(const PageScript& script) {
  return "default-src 'none'; script-src " + policy_source(script.digest) + "; style-src " +
         policy_source(page_style_digest) + "; base-uri 'none'; form-action 'none'";
}

}  // namespace

std::string embedded(const Json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string deflated(std::string_view text) {
  constexpr int no_head = -MAX_WBITS, usual_memory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, no_head, usual_memory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(Code::internal, "zlib failed to start", "report this bug");
  }
  std::vector<std::byte> packed(deflateBound(&stream, text.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw Error(Code::internal, "zlib failed to finish", "report this bug");
  return to_base64(packed);
}

void Packed::column(std::string_view name, const std::vector<std::optional<std::uint64_t>>& numbers) {
  std::vector<std::uint64_t> shifted;  // 0 for nullopt
  shifted.reserve(numbers.size());
  for (const auto& number : numbers) shifted.push_back(number ? *number + 1 : 0);
  column(name, shifted);
}

void Packed::column(std::string_view name, const std::vector<std::uint64_t>& numbers) {
  const std::uint64_t largest = numbers.empty() ? 0 : *std::ranges::max_element(numbers);
  const unsigned width = largest < 1U << 8U ? 1 : largest < 1U << 16U ? 2 : largest >> 32U == 0 ? 4 : 8;
  std::string bytes;
  bytes.reserve(width * numbers.size());
  std::uint64_t before = 0;
  for (const std::uint64_t number : numbers) {
    // Stores differences, which compress well if numbers increase evenly. Numbers over 32 bits are stored as doubles.
    std::uint64_t stored = number - std::exchange(before, number);
    if (width == 8) stored = std::bit_cast<std::uint64_t>(static_cast<double>(number));
    for (unsigned i = 0; i < width; ++i) bytes += static_cast<char>(stored >> (8U * i));
  }
  element("column-" + std::string(name), deflated(bytes),
          " data-width=\"" + std::to_string(width) + "\" data-count=\"" + std::to_string(numbers.size()) + "\"");
}

void Packed::element(const std::string& id, std::string_view content, std::string_view attributes) {
  elements += "<script type=\"text/plain\" id=\"whence-" + id + "\"";
  elements += attributes;
  elements += ">";
  elements += content;
  elements += "</script>\n";
}

void write_page(const PageScript& script, const PageData& data, AtomicFile& to,
                const std::function<void(AtomicFile&)>& write_more) {
  std::string_view rest = page_html;
  const auto write_until = [&](std::string_view mark) {  // the frame has the marks in the order of the calls
    const std::size_t at = rest.find(mark);
    if (at == std::string_view::npos)
      throw Error(Code::internal, "the page's frame lacks " + std::string(mark), "report this bug");
    to.write(rest.substr(0, at));
    rest.remove_prefix(at + mark.size());
  };
  write_until("{{policy}}");
  to.write(policy(script));
  write_until("{{style}}");
  to.write(page_style);
  write_until("{{data}}");
  to.write(data.tables);
  write_until("{{packed}}");
  to.write(data.packed);
  if (write_more) write_more(to);
  write_until("{{script}}");
  to.write(script.text);
  to.write(rest);
}

}  // namespace whence::report
