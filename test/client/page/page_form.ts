/** Opens the verification page in Chromium and uses its form as a person would. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPage } from '../../../tools/build_page'
import { type Chromium, openChromium, type Page } from './chromium'

type FormFields = { url: string; policy: string; collateral: string; manifest: string }
/** What the page shows afterwards. */
export type Outcome = {
  verdict: string | null
  said: string
  focused: boolean
  /** Text of each row by the name of its check. */
  rows: Record<string, string>
  /** Numbers of the checks that the page shows as failed. */
  failed: string[]
}
export type OpenedPage = {
  /** With the built page, `index.html`. */
  folder: string
  chromium: Chromium
  page: Page
  verify(fields: FormFields): Promise<Outcome>
  close(): Promise<void>
}

/** The page is served from another origin than any venue. */
export async function openVerifyPage(): Promise<OpenedPage> {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-page-'))
  const file = Bun.file(await buildPage(folder))
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(file) })
  const chromium = await openChromium()
  const page = await chromium.open(`http://127.0.0.1:${server.port}/`)
  return {
    folder,
    chromium,
    page,
    verify: (fields) => verifyOn(page, fields),
    async close() {
      await chromium.close()
      await server.stop(true)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function verifyOn(page: Page, fields: FormFields): Promise<Outcome> {
  await page.evaluate(`for (const [id, text] of Object.entries(${JSON.stringify(fields)}))
    document.getElementById(id).value = text`)
  return page.evaluate<Outcome>(`new Promise((resolve) => {
    const done = () => {
      const verdict = document.querySelector('.verdict')
      const fault = document.querySelector('#status.fault')
      if (!verdict && !fault) return
      watcher.disconnect()
      const rows = [...document.querySelectorAll('tr[data-check]')].map((row) => [row.dataset.check, row.innerText])
      const failed = [...document.querySelectorAll('tr[data-result=fail] .number')].map((one) => one.innerText)
      resolve({
        verdict: verdict?.dataset.verdict ?? null,
        said: (verdict ?? fault).innerText,
        focused: document.activeElement === verdict,
        rows: Object.fromEntries(rows),
        failed,
      })
    }
    const watcher = new MutationObserver(done)
    watcher.observe(document.body, { subtree: true, childList: true, attributes: true })
    document.getElementById('verify').click()
  })`)
}
