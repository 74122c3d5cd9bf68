/**
 * A Chromium for tests of what a person sees: `KVFERRY_BROWSER`, or the first of the usual names on PATH.
 * Nothing is downloaded; without one those tests are skipped and say so, or fail where CI requires that
 * nothing is left out.
 */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser } from 'playwright-core'

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome']

function findBrowser(): string | null {
  const own = process.env['KVFERRY_BROWSER']
  if (own) return own
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const paths = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  return paths.find((path) => existsSync(path)) ?? null
}

export const browserPath = findBrowser()
/** CI sets it for everything that a machine may lack, so that a skip can't look green. */
export const isBrowserOptional = process.env['KVFERRY_REQUIRE_NIXL'] !== '1'
const whereItIsNot = 'no Chromium on PATH, none in KVFERRY_BROWSER'
export const whyNoBrowser =
  browserPath === null && isBrowserOptional ? ` (skipped: ${whereItIsNot})` : ''

/** With what a closed network and a container need. */
export async function launchBrowser(): Promise<Browser> {
  if (browserPath === null) throw new Error(`${whereItIsNot}, but KVFERRY_REQUIRE_NIXL is 1`)
  return chromium.launch({
    executablePath: browserPath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic'],
  })
}
