/** The reference as one HTML page without script: operations, frames of the sockets, and every refusal with an anchor. */
import { REFUSALS } from '../protocol/refusals'
import type { MountedRoute } from './_mount'
import type { OpenApi, Operation } from './_openapi_fix'
import { type Html, html, join, prose, raw } from './_reference_html'
import { fieldList, schemaTable } from './_reference_schema'
import { streamsSection } from './_reference_streams'

/** What the page may load, wherever it is served: our own style, and the empty icon that keeps browsers from asking for one. */
export const REFERENCE_POLICY =
  "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

export function referencePage(document: OpenApi, manifest: readonly MountedRoute[]): string {
  const { title, version, description } = document.info
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} ${version}: reference</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/style.css">
</head>
<body>
<header>
<h1>${title} <small>${version}</small></h1>
${join(description.split('\n').map((line) => html`<p>${prose(line)}</p>`))}
<p><a href="/swagger/json">OpenAPI document</a></p>
<nav>
${join(sectionsOf(document).map(([name]) => html`<a href="#tag-${name}">${name}</a> `))}
<a href="#frames">frames</a> <a href="#refusals">refusals</a>
</nav>
</header>
<main>
${join(sectionsOf(document).map(([name, text]) => section(document, name, text)))}
${streamsSection(manifest)}
${refusalsSection()}
</main>
</body>
</html>
`
  return page.text
}

function sectionsOf(document: OpenApi): [string, string][] {
  return document.tags.map(({ name, description }) => [name, description])
}

function section(document: OpenApi, tag: string, text: string): Html {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => operationBlock(method, path, operation)),
  )
  return html`<section id="tag-${tag}"><h2>${tag}</h2><p>${text}</p>${join(operations)}</section>`
}

function operationBlock(method: string, path: string, operation: Operation): Html {
  const { operationId, summary, description, parameters, requestBody, responses, security } = operation
  return html`<article id="${operationId}">
<h3><code class="method">${method.toUpperCase()}</code> <code>${path}</code></h3>
<p><strong>${summary}.</strong> ${prose(description ?? '')}</p>
<p class="note">${tokenNote(security)}</p>
${parameters === undefined ? raw('') : parametersTable(parameters)}
${
  requestBody === undefined
    ? raw('')
    : html`<h4>Body</h4>${schemaTable(requestBody.content['application/json']!.schema)}`
}
<h4>Answers</h4>
<dl>${join(Object.entries(responses).map(([status, response]) => answerRow(status, response)))}</dl>
</article>
`
}

function tokenNote(security: unknown[] | undefined): string {
  if (security === undefined) return 'No token.'
  return security.length > 1 ? 'Token optional.' : 'Bearer token required.'
}

function parametersTable(parameters: NonNullable<Operation['parameters']>): Html {
  const rows = parameters.map(
    ({ name, in: place, required, description, schema }) =>
      html`<tr><td><code>${name}</code></td><td>${place}</td><td>${required ? 'required' : 'optional'}</td><td>${
        description ?? (schema['description'] as string | undefined) ?? ''
      }</td></tr>`,
  )
  return html`<h4>Parameters</h4><table><tbody>${join(rows)}</tbody></table>`
}

function answerRow(status: string, response: Operation['responses'][string]): Html {
  const json = response.content?.['application/json']?.schema
  if (json !== undefined)
    return html`<dt>${status}</dt><dd>${prose(response.description)}<br>${fieldList(json)}</dd>`
  const codes = [...response.description.matchAll(/`([a-z_]+)`/g)].map(([, code]) => code!)
  if (codes.length === 0) return html`<dt>${status}</dt><dd>${prose(response.description)}</dd>`
  return html`<dt>${status}</dt><dd>${join(codes.map((code) => html`<a href="#${code}"><code>${code}</code></a> `))}</dd>`
}

function refusalsSection(): Html {
  const rows = REFUSALS.map(
    ({ code, status, message }) =>
      html`<tr id="${code}"><td><code>${code}</code></td><td>${String(status)}</td><td>${message}</td></tr>`,
  )
  return html`<section id="refusals"><h2>refusals</h2>
<p>In the order the checks run; the first that fails answers. Codes are never renamed or reused.</p>
<table><thead><tr><th>code</th><th>status</th><th>meaning</th></tr></thead><tbody>${join(rows)}</tbody></table></section>`
}
