# Compiles the pages of `whence report` and `whence diff` into the command, so that they need no files at run time. Style
# and scripts are joined to one text each, with a digest for the page's security policy.
set(page_folder ${CMAKE_SOURCE_DIR}/annotator/report/page)
# Scripts share one scope; each may use the ones before it, and functions of all.
set(shared_scripts inflate.js data.js text.js filter.js tree.js layout.js graph_parts.js drawing.js selection.js splitter.js)
set(report_scripts report_data.js module_graph.js facts.js evidence.js findings.js report.js)
set(diff_scripts diff_data.js diff_graph.js figures.js diff_facts.js diff_lists.js diff.js)

# Joins the shared scripts and those of one page.
function(join_scripts page)
  set(joined "\n")
  foreach(name IN LISTS shared_scripts ${page}_scripts)
    file(READ ${page_folder}/${name} text)
    string(APPEND joined "${text}")
  endforeach()
  string(SHA256 digest "${joined}")
  set(${page}_script "${joined}" PARENT_SCOPE)
  set(${page}_script_digest ${digest} PARENT_SCOPE)
endfunction()

join_scripts(report)
join_scripts(diff)
file(READ ${page_folder}/page.css page_style)
file(READ ${page_folder}/frame.html page_html)
string(SHA256 page_style_digest "${page_style}")
configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/report_page.h.in ${CMAKE_BINARY_DIR}/generated/report_page.h @ONLY)
file(GLOB page_files CONFIGURE_DEPENDS ${page_folder}/*)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_files})
