/** The style of the reference page: one column, system fonts, both themes, nothing loaded from elsewhere. */
export const REFERENCE_STYLE = `:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
h1 small { font-weight: normal; font-size: 1rem; }
h2 { border-bottom: 1px solid var(--line); text-transform: capitalize; margin-top: 3rem; }
article { border: 1px solid var(--line); border-radius: 6px; padding: 0 1rem 1rem; margin: 1rem 0; }
article h3 { margin: .8rem 0 .2rem; }
.method { background: var(--soft); padding: .1rem .4rem; border-radius: 4px; }
.note { color: color-mix(in srgb, CanvasText 70%, Canvas); margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; }
td table { margin-top: .4rem; }
dt { font-weight: bold; }
dd { margin: 0 0 .5rem 1rem; }
nav a { margin-right: .8rem; }
@media (max-width: 40rem) {
  article { padding: 0 .5rem 1rem; }
  td table, td tbody, td tr, td td { display: block; border-width: 0; padding-left: 0; }
  td tr { border-top: 1px solid var(--line); }
}
tr:target, article:target { outline: 2px solid; }
`
