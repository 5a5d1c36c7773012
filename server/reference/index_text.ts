/** Writes the index that programs read first (llmstxt.org): what the venue is, and a line for every operation. */
import type { OpenApi } from './openapi'
import { PAGES } from './pages'

export function indexOf({ info, tags, paths }: OpenApi): string {
  const sections = tags.map(({ name }) => {
    const lines = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => operation.tags.includes(name))
        .map(([method, { operationId, summary }]) => {
          const call = `${method.toUpperCase()} ${path}`
          return `- [${call}](/swagger#${operationId}): ${summary}`
        }),
    )
    return `## ${name}\n\n${lines.join('\n')}`
  })
  const documents = [
    ...PAGES.map(
      ({ name, title, summary }) => `- [${title.replaceAll('`', '')}](/swagger/docs/${name}.md): ${summary}`,
    ),
    '- [OpenAPI](/swagger/json): every operation with its fields, answers and refusals',
    '- [AsyncAPI](/swagger/streams): every frame of the sockets',
    '- [Reference](/swagger): the same as a page, with the refusal codes',
  ]
  const summary = info.description.replaceAll('\n', '\n> ')
  return `# ${info.title} ${info.version}\n\n> ${summary}\n\n## Documents\n\n${documents.join('\n')}\n\n${sections.join('\n\n')}\n`
}
