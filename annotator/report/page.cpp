// Writes the page of a report: page/report.html with style, script and data inserted. The page's policy names the
// script by its digest, so the browser runs no other script and fetches nothing.
#include "annotator/report/report.h"
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

std::string policy() {
  return "default-src 'none'; script-src " + policy_source(page_script_digest) + "; style-src " +
         policy_source(page_style_digest) + "; base-uri 'none'; form-action 'none'";
}

}  // namespace

void write_html(const Report& report, AtomicFile& to) {
  std::string_view rest = page_html;
  const auto write_until = [&](std::string_view mark) {  // the template has the marks in the order of the calls
    const std::size_t at = rest.find(mark);
    if (at == std::string_view::npos)
      throw Error(Code::internal, "the page template lacks " + std::string(mark), "report this bug");
    to.write(rest.substr(0, at));
    rest.remove_prefix(at + mark.size());
  };
  write_until("{{policy}}");
  to.write(policy());
  write_until("{{style}}");
  to.write(page_style);
  const PageData data = page_data(report);
  write_until("{{data}}");
  to.write(data.tables);
  write_until("{{packed}}");
  to.write(data.packed);
  write_page_evidence(report, to);
  write_until("{{script}}");
  to.write(page_script);
  to.write(rest);
}

}  // namespace whence::report
