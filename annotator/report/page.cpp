// The page of a report: report.html of page/ with its style, its script and the data in their places. The browser runs
// that script and no other: the policy names it by its digest, and nothing may be fetched.
#include "annotator/report/report.h"
#include "generated/report_page.h"
#include "schema/sidecar/base64.h"

namespace whence::report {
namespace {

// "'sha256-...'" of a digest in hexadecimal digits, as content security policies want it.
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

std::string to_html(const Report& report) {
  const std::pair<std::string_view, std::string> parts[] = {{"{{policy}}", policy()},
                                                            {"{{style}}", std::string(page_style)},
                                                            {"{{data}}", page_data(report)},
                                                            {"{{evidence}}", page_evidence(report)},
                                                            {"{{script}}", std::string(page_script)}};
  std::string html;
  std::string_view rest = page_html;
  for (const auto& [mark, text] : parts) {  // in the order in which they stand; what was put in is not looked at again
    const std::size_t at = rest.find(mark);
    if (at == std::string_view::npos)
      throw Error(Code::internal, "the page has no place " + std::string(mark), "report it");
    html.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return html.append(rest);
}

}  // namespace whence::report
