/**
 * The reports as a person opens them: in a browser, from disk, offline. No errors, nothing fetched, every
 * panel drawn, and the words that make the numbers believable.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { browserPath, isBrowserOptional, launchBrowser, whyNoBrowser } from './browser.ts'
import {
  fakeBins,
  fakeConnector,
  fakeHistoryConnector,
  fakeProgramFlags,
  runCommand,
  shortLoad,
} from './fake-programs.ts'

let directory = ''
const at = (name: string): string => join(directory, name)

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
  process.env['FAKE_FAULT'] = 'overrun'
  try {
    const compared = await runCommand([
      ...['compare', ...fakeProgramFlags, ...shortLoad],
      ...['--json', at('compare.json'), '--html', at('compare.html')],
    ])
    expect(compared.exitCode, compared.stderr).toBe(0)
    expect(compared.stdout).toContain(`report: ${at('compare.html')}`)
    const swept = await runCommand([
      ...['sweep', ...fakeProgramFlags, '--results-dir', at('results'), '--requests', '10'],
      ...['--qps', '200,400', '--input-lens', '16,32', '--html', at('sweep.html')],
    ])
    expect(swept.exitCode, swept.stderr).toBe(0)
    process.env['FAKE_LONG_TOKEN_MS'] = '10'
    const both = ['--connectors', `${fakeConnector},${fakeHistoryConnector}`, ...fakeBins]
    const reused = await runCommand([
      ...['reuse', ...both, '--cycles', '2', '--controls', 'none'],
      ...['--html', at('reuse.html')],
    ])
    expect(reused.exitCode, reused.stderr).toBe(0)
    expect(reused.stdout).toContain('revisit TTFT p50: reduction against fake within 15 %')
    const loaded = await runCommand([
      ...['load', ...both, '--requests', '8', '--time-scale', '0.1', '--html', at('load.html')],
    ])
    expect(loaded.exitCode, loaded.stderr).toBe(0)
    expect(loaded.stdout).toContain('No bars to judge')
  } finally {
    delete process.env['FAKE_FAULT']
    delete process.env['FAKE_LONG_TOKEN_MS']
  }
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

it('is one file without scripts that names no other', () => {
  for (const name of ['compare.html', 'sweep.html', 'reuse.html', 'load.html']) {
    const html = readFileSync(at(name), 'utf8')
    expect(html).not.toMatch(/<script|<iframe|<img|@import/i)
    // Namespaces of SVG are names, not addresses that are fetched.
    expect(html.replaceAll(/xmlns(:xlink)?="[^"]*"/g, '')).not.toMatch(/(href|src)="(?!data:,")/i)
  }
})

describe('report on the files of a sweep', () => {
  const chart = (...args: string[]) =>
    runCommand(['report', '--results-dir', at('results'), ...args, '--svg', '-'])

  it.each([
    ['ttft', 'Time to first token'],
    ['tpot', 'Time per output token'],
  ])('draws each mode and rate for %s', async (metric, title) => {
    const { exitCode, stdout, stderr } = await chart('--metric', metric)
    expect(exitCode, stderr).toBe(0)
    const hollow = 'mean, 16 output tokens; hollow = outside the overrun guard'
    const lines = ['fake, 200/s', 'fake, 400/s', 'fake-inline, 200/s', 'fake-inline, 400/s']
    for (const words of [title, hollow, ...lines]) expect(stdout).toContain(words)
    // Two lengths on each of four lines.
    expect(stdout.match(/ecmeta_ssr_type="chart"/g)).toHaveLength(8)
  })

  it("draws vLLM's files of the same mode beside them, by another name", async () => {
    mkdirSync(at('vllm'))
    for (const point of ['qps200_in16', 'qps200_in32', 'qps400_in16', 'qps400_in32']) {
      const content = { completed: 10, duration: 1, mean_ttft_ms: 5 }
      writeFileSync(at(`vllm/fake_${point}_out16_iter1.json`), JSON.stringify(content))
    }
    const { exitCode, stdout, stderr } = await chart(
      '--results-dir',
      at('vllm'),
      '--metric',
      'ttft',
    )
    expect(exitCode, stderr).toBe(0)
    for (const words of ['fake, 400/s', 'fake-inline, 400/s', 'fake (vLLM), 400/s']) {
      expect(stdout).toContain(words)
    }
    expect(stdout.match(/ecmeta_ssr_type="chart"/g)).toHaveLength(12)
  })
})

describe.skipIf(isBrowserOptional && browserPath === null)(`in Chromium${whyNoBrowser}`, () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser?.close())

  async function open(name: string): Promise<{ page: Page; problems: string[] }> {
    const page = await browser.newPage({ viewport: { width: 1_400, height: 1_000 } })
    const problems: string[] = []
    page.on('console', (message) => problems.push(message.text()))
    page.on('pageerror', (error) => problems.push(String(error)))
    page.on('request', (request) => {
      if (request.url() !== pathToFileURL(at(name)).href) problems.push(request.url())
    })
    await page.goto(pathToFileURL(at(name)).href)
    return { page, problems }
  }

  /** Of each panel: its name, its size on screen, and how many marks (not axes or frames) it has. */
  const panelsOf = (page: Page) =>
    page.locator('figure').evaluateAll((figures) =>
      figures.map((figure) => {
        const svg = figure.querySelector('svg')
        const box = svg?.getBoundingClientRect()
        const marks = [...figure.querySelectorAll('[ecmeta_ssr_type="chart"], [clip-path] path')]
        return {
          name: figure.getAttribute('aria-label'),
          width: box?.width ?? 0,
          height: box?.height ?? 0,
          drawn: marks.filter((mark) => {
            const { width, height } = mark.getBoundingClientRect()
            return width + height > 0
          }).length,
        }
      }),
    )

  it.each([
    ['compare.html', 9],
    ['sweep.html', 11],
    ['reuse.html', 5],
    ['load.html', 6],
  ])('%s opens without a complaint, every one of its %i panels drawn', async (name, count) => {
    const { page, problems } = await open(name)
    const panels = await panelsOf(page)
    expect(problems).toEqual([])
    expect(panels).toHaveLength(count)
    for (const panel of panels) {
      expect(panel, String(panel.name)).toMatchObject({ name: expect.stringMatching(/\w/) })
      expect(panel.width, String(panel.name)).toBeGreaterThan(400)
      expect(panel.height, String(panel.name)).toBeGreaterThan(200)
      expect(panel.drawn, String(panel.name)).toBeGreaterThan(0)
    }
    await page.close()
  })

  it('the comparison states checks, noise floor, conditions and what lies outside the guard', async () => {
    const { page } = await open('compare.html')
    const text = await page.locator('body').innerText()
    expect(text).toContain('noise floor (fake')
    expect(text).toContain('fake: outside the overrun guard (overrun 50.0 %')
    for (const word of [
      'KV wait on D',
      'block-seconds held P / D',
      'hooks P / D',
      'kernel, Node',
    ]) {
      expect(text).toContain(word)
    }
    await page.close()
  })

  it('the reuse experiment states its bars, its counters and the published figures', async () => {
    const { page } = await open('reuse.html')
    const text = await page.locator('body').innerText()
    for (const word of ['Bars', 'prefillCallMs explains', 'loads / revisits', '−28.5 %']) {
      expect(text).toContain(word)
    }
    expect(text).toContain('a second arena of')
    await page.close()
  })

  it('the load experiment states its phases, where cold arrivals waited, and why it has no bars', async () => {
    const { page } = await open('load.html')
    const text = await page.locator('body').innerText()
    for (const word of ['32 at a time', 'wait for D’s step', 'cold during decode', 'No bars']) {
      expect(text).toContain(word)
    }
    await page.close()
  })

  it('the sweep states its points, which are invalid, and the conditions', async () => {
    const { page } = await open('sweep.html')
    const text = await page.locator('body').innerText()
    expect(text).toMatch(/8 of 8 runs are outside the overrun guard.*fake_qps400_in32_out16_iter1/)
    expect(await page.locator('tbody').first().locator('tr').count()).toBe(8)
    expect(text).toContain('noise floor of TTFT p50')
    expect(text).toContain('"maxNumSeqs":8')
    await page.close()
  })
})
