"""How the API page looks, by day and by night."""

STYLE = """
:root { color-scheme: light dark; --text: #1d2329; --back: #fff; --soft: #f3f5f7; --line: #d5dae0; --quiet: #5b6670;
  --link: #0b57b0; --get: #1a7f37; --post: #0b57b0; --put: #9a5b00; --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e7eb; --back: #14181c; --soft: #1e2429; --line: #39424a;
  --quiet: #9aa5af; --link: #79b4ff; --get: #57c278; --post: #79b4ff; --put: #e0a64b; --delete: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); }
a { color: var(--link); text-decoration: none; } a:hover, main a { text-decoration: underline; }
code, pre { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:not(pre) > code { background: var(--soft); border-radius: 3px; padding: .1em .3em; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: .5rem 0;
  overflow-x: auto; }
nav { padding: 1.5rem 1rem; border-bottom: 1px solid var(--line); font-size: .875rem; }
nav h2, h4 { color: var(--quiet); font-size: .8rem; text-transform: uppercase; letter-spacing: .05em; }
nav h2 { margin: 1rem 0 .2rem; }
nav { columns: 17rem; }
nav ul { list-style: none; margin: 0; padding: 0; break-inside: avoid; } nav li { padding: .08rem 0; }
main { padding: 1rem 1.5rem 6rem; max-width: 62rem; }
@media (min-width: 70rem) {
  body { display: grid; grid-template-columns: 19rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; columns: auto; border-bottom: 0;
    border-right: 1px solid var(--line); }
  main { padding: 1rem 3rem 6rem; }
}
h1 small { color: var(--quiet); font-weight: 400; font-size: 1rem; }
main > h2 { margin: 3rem 0 .3rem; font-size: 1.5rem; }
section { border-top: 1px solid var(--line); padding: 1.2rem 0 .8rem; margin-top: 1.2rem; }
section h3 { margin: 0 0 .3rem; font-size: 1.05rem; overflow-wrap: anywhere; }
section h3 code { background: none; padding: 0; font-size: 1.05rem; }
h4 { margin: 1rem 0 .3rem; }
.method { font-weight: 700; font-size: .8em; letter-spacing: .03em; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); } .delete { color: var(--delete); }
.quiet { color: var(--quiet); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); }
th:nth-child(1) { width: 21%; } th:nth-child(2) { width: 25%; } th:nth-child(3):not(:last-child) { width: 12%; }
th { font-weight: 600; color: var(--quiet); font-size: .8rem; }
summary { cursor: pointer; color: var(--link); padding: .15rem 0; }
:target { scroll-margin-top: 1rem; } section:target h3 { text-decoration: underline; text-underline-offset: .3em; }
"""
