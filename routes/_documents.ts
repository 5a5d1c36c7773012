/** The reference pages of the origin, made once at start from the routes themselves. */
import { MANIFEST } from './_manifest.gen'
import { openApiOf } from './_openapi'
import { referencePage } from './_reference_page'
import { REFERENCE_STYLE } from './_reference_style'

export type Documents = { json: string; html: string; css: string }

export async function openDocuments(version: string): Promise<Documents> {
  const document = await openApiOf(MANIFEST, version)
  return {
    json: JSON.stringify(document),
    html: referencePage(document, MANIFEST),
    css: REFERENCE_STYLE,
  }
}
