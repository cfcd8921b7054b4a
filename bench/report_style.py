"""The look of a report: one style sheet, in the light and in the dark, wide and narrow."""

from __future__ import annotations

# The eight colours are told apart with the common colour blindnesses, and each line has a marker.
STYLE = """
:root {
  --ink: #1b1f24; --quiet: #5b636d; --paper: #ffffff; --edge: #d9dee4; --stripe: #f5f7f9;
  --c0: #0072b2; --c1: #c8470a; --c2: #00805f; --c3: #a3468c;
  --c4: #8a6d00; --c5: #3c49b5; --c6: #a0282d; --c7: #45707f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --quiet: #9aa4af; --paper: #14171b; --edge: #353c44; --stripe: #1c2026;
    --c0: #56b4e9; --c1: #f0894f; --c2: #35c59a; --c3: #dc8cc4;
    --c4: #d9b93b; --c5: #97a2f5; --c6: #ef7f83; --c7: #8fbccb;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.lead { font-size: 1.1rem; max-width: 46rem; }
.small { color: var(--quiet); font-size: .85rem; margin-top: 2rem; }
li { overflow-wrap: anywhere; }
figure { margin: 0; max-width: 44rem; }
figure > svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--edge); stroke-width: 1; fill: none; }
.tick { fill: var(--quiet); font-size: 12px; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.touch { fill: transparent; stroke: none; }
.mark { stroke: var(--paper); stroke-width: .8; }
.line.c0 { stroke: var(--c0); } .mark.c0 { fill: var(--c0); }
.line.c1 { stroke: var(--c1); } .mark.c1 { fill: var(--c1); }
.line.c2 { stroke: var(--c2); } .mark.c2 { fill: var(--c2); }
.line.c3 { stroke: var(--c3); } .mark.c3 { fill: var(--c3); }
.line.c4 { stroke: var(--c4); } .mark.c4 { fill: var(--c4); }
.line.c5 { stroke: var(--c5); } .mark.c5 { fill: var(--c5); }
.line.c6 { stroke: var(--c6); } .mark.c6 { fill: var(--c6); }
.line.c7 { stroke: var(--c7); } .mark.c7 { fill: var(--c7); }
.line.infinite { stroke: var(--quiet); stroke-width: 1.5; }
.line.optimum { stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 5 4; }
.line.reference { stroke: var(--quiet); stroke-width: 8; stroke-opacity: .3; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0;
  padding: 0; font-size: .9rem; }
.legend svg { width: 28px; height: 12px; margin-right: .4rem; vertical-align: middle; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th { text-align: right; vertical-align: bottom; font-weight: 600; color: var(--quiet);
  min-width: 4.2rem; }
th, td { padding: .3rem .6rem; }
td { text-align: right; white-space: nowrap; }
th:nth-child(2), td:nth-child(2) { text-align: left; }
tr.first td { border-top: 1px solid var(--edge); }
tbody tr:hover { background: var(--stripe); }
"""
