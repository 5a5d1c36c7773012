/** Renders the documents of `docs/` as pages without script; each is served beside its Markdown text. */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** In reading order. */
const NAMES = [
  ...['quickstart', 'notes', 'batches', 'stages', 'receipts', 'exits'],
  ...['bodies', 'errors', 'streams', 'archive', 'operations', 'security'],
]
/** The build copies the documents beside its bundle. */
const COPIED = join(import.meta.dir, 'documents')
const FOLDER = existsSync(COPIED) ? COPIED : join(import.meta.dir, '../..')

function readText(name: string): string {
  return readFileSync(join(FOLDER, name === 'security' ? 'SECURITY.md' : `docs/${name}.md`), 'utf8')
}

type Page = {
  name: string
  title: string
  /** The sentence below the title. */
  summary: string
  text: string
  html: string
}

export const PAGES: readonly Page[] = NAMES.map((name) => {
  const text = readText(name)
  const title = /^# (.+)$/m.exec(text)![1]!
  const [, summary = ''] = /^# .+\n+(?:#+ .+\n+)?([^\n]+(?:\n[^\n#|`-][^\n]*)*)/m.exec(text) ?? []
  const [sentence = ''] = /^.*?[.:](?=\s|$)/s.exec(summary) ?? []
  return { name, title, summary: sentence.replaceAll('\n', ' '), text, html: pageOf(name, title, text) }
})

/** By file name: `NAME` is the page, `NAME.md` its text. */
export const DOCUMENT_FILES: ReadonlyMap<string, { content_type: string; body: string }> = new Map(
  PAGES.flatMap(({ name, text, html }) => [
    [name, { content_type: 'text/html; charset=utf-8', body: html }],
    [`${name}.md`, { content_type: 'text/markdown; charset=utf-8', body: text }],
  ]),
)

function pageOf(name: string, title: string, text: string): string {
  const links = NAMES.map((one) =>
    one === name
      ? `<a href="/swagger/docs/${one}" aria-current="page">${one}</a>`
      : `<a href="/swagger/docs/${one}">${one}</a>`,
  )
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tacit: ${title.replaceAll('`', '')}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/style.css">
</head>
<body class="document">
<nav aria-label="Documents">${links.join(' ')} <a href="/swagger">reference</a></nav>
<main>
${withAnchors(Bun.markdown.html(withServedLinks(text)))}</main>
<footer><p><a href="/swagger/docs/${name}.md">This page as Markdown</a>, <a href="/swagger/llms.txt">index of all documents</a></p></footer>
</body>
</html>
`
}

/** Links between served documents lead to their pages; a link to another file of the repository becomes its path. */
function withServedLinks(text: string): string {
  return text.replace(/\[([^\]\n]+)\]\((?!https?:|#)([^)\s]+)\)/g, (_, label: string, target: string) => {
    const [, name = '', anchor = ''] = /^(?:\.\.\/)?(?:docs\/)?([A-Za-z]+)\.md(#.+)?$/.exec(target) ?? []
    if (NAMES.includes(name.toLowerCase())) return `[${label}](/swagger/docs/${name.toLowerCase()}${anchor})`
    if (target.startsWith('/')) return `[${label}](${target})`
    return `${label} (\`${target.replace(/^(\.\.?\/)+/, '')}\`)`
  })
}

/** Headings get the ids that code hosts give them, so that one link works in both places. */
function withAnchors(html: string): string {
  return html.replace(/<h([2-4])>(.*?)<\/h\1>/g, (_, level: string, content: string) => {
    const id = content
      .replace(/<[^>]+>|&[a-z]+;/g, '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    return `<h${level} id="${id}">${content}</h${level}>`
  })
}
