"""The style sheet of the HTML pages that this package writes, for light and dark mode."""

STYLE = """
:root{--ink:#1c2530;--faint:#68727e;--line:#d5dae0;--paper:#fff;--good:#2f7d4f;--bad:#c0392b}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--faint:#98a2ae;--line:#3a424c;--paper:#171b20;--good:#6cc08b;
--bad:#ff7b6b}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2em auto;max-width:76em;
padding:0 1em}
h1{font-size:1.3em;margin:0}pre{font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;font-family:ui-monospace,monospace;white-space:pre}
th{color:var(--faint);font-weight:normal;position:sticky;top:0;background:var(--paper)}
td.note{text-align:left;color:var(--faint)}tr.first td{font-weight:bold;color:var(--bad)}
svg{width:100%;height:auto;margin:1em 0}svg text{font:11px system-ui,sans-serif;fill:var(--faint)}
"""
