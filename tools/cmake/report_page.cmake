# Compiles the page of `whence report` into the command, so that it needs no files at run time. Style and scripts are
# joined to one text each, with a digest for the page's security policy.
set(page_folder ${CMAKE_SOURCE_DIR}/annotator/report/page)
# Scripts share one scope; each may use the ones before it.
set(page_scripts inflate.js data.js text.js filter.js tree.js layout.js module_graph.js drawing.js facts.js evidence.js findings.js
                 report.js splitter.js)
set(page_script "\n")
foreach(name IN LISTS page_scripts)
  file(READ ${page_folder}/${name} text)
  string(APPEND page_script "${text}")
endforeach()
file(READ ${page_folder}/report.css page_style)
file(READ ${page_folder}/report.html page_html)
string(SHA256 page_script_digest "${page_script}")
string(SHA256 page_style_digest "${page_style}")
configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/report_page.h.in ${CMAKE_BINARY_DIR}/generated/report_page.h @ONLY)
file(GLOB page_files CONFIGURE_DEPENDS ${page_folder}/*)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_files})
