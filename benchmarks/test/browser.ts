/**
 * A Chromium for tests of what a person sees: `KVFERRY_BROWSER`, or the first of the usual names on PATH.
 * Nothing is downloaded; without one those tests are skipped and say so.
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
export const whyNoBrowser =
  browserPath === null ? ' (skipped: no Chromium on PATH, none in KVFERRY_BROWSER)' : ''

/** With what a closed network and a container need. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: browserPath as string,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic'],
  })
}
