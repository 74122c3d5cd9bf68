/** `micro --router`: known windows in, known numbers out; and one small window through a real router. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Agent } from 'undici'
import { silentLogger } from '@kvferry/connector-api'
import { startRouter } from '@kvferry/router'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { main } from '../src/main.ts'
import { assemble, runRounds } from '../src/micro/router.ts'
import { startStreamingEngines } from '../src/micro/router-engines.ts'
import { runWindow, windowOf, type Window } from '../src/micro/router-load.ts'
import { addedBar, routerCases, type Round } from '../src/micro/router-statistics.ts'
import { renderMicroRouter } from '../src/micro/router-table.ts'

const windowAt = (us: number): Window => ({ tokenUs: [us, us + 1, us + 2], firstUs: [10 * us] })
const round = (direct: number, again: number, routed: number): Round => ({
  direct: windowAt(direct),
  directAgain: windowAt(again),
  routed: windowAt(routed),
})
const bar = { p50UsMax: 1_000, spreadUsMax: 500 }
const cpu = {
  kind: 'router-cpu',
  label: 'router',
  durationMs: 1_000,
  share: 0.25,
  bar: { rule: 'share of a core', limit: null, value: 0.25, verdict: 'reported' },
} as const

describe('statistics', () => {
  it('compare medians within a round, so that drift cancels out', () => {
    const rounds = [0, 1, 2, 3].map((i) => round(1_000 * i, 1_000 * i + 10, 1_000 * i + 300))
    const [tokens, first] = routerCases(rounds, bar)
    expect(tokens.addedUs.p50).toBe(300)
    expect(tokens.noise).toMatchObject({ spreadUs: 10, addedMedianInterval: [10, 10] })
    expect(tokens.bar).toMatchObject({ value: 300, limit: 1_000, verdict: 'pass' })
    expect(tokens.directUs.count).toBe(12)
    expect(first.addedUs.p50).toBe(3_000)
    expect(first.bar.verdict).toBe('reported')
  })

  it.each([
    [1_000, 0, 'pass'],
    [1_001, 0, 'fail'],
    [10, 501, 'too-noisy'],
  ])('judge %i µs with a spread of %i µs: %s', (value, spread, verdict) => {
    expect(addedBar(value, spread, bar).verdict).toBe(verdict)
  })

  it('take the tokens of the time in which all streams ran', () => {
    const stream = (...sentAt: bigint[]) => ({
      startedAtNs: sentAt[0]! - 5_000n,
      tokens: sentAt.map((sentAtNs) => ({ sentAtNs, readAtNs: sentAtNs + sentAtNs / 1_000n })),
    })
    const [early, late] = [
      stream(1_000_000n, 2_000_000n, 3_000_000n),
      stream(2_000_000n, 4_000_000n),
    ]
    expect(windowOf([early, late])).toEqual({ tokenUs: [2, 3, 2], firstUs: [6, 7] })
    expect(() => windowOf([stream(1n), stream(2n)])).toThrow('never ran all at once')
  })

  it('make a result of the published form, and a table of it', () => {
    const failing = [round(0, 0, 2_000), round(0, 0, 2_000)]
    const result = assemble(routerCases(failing, bar), cpu)
    assertMatchesSchema('micro', result)
    expect(result.verdict.ok).toBe(false)
    expect(renderMicroRouter(result)).toContain('FAIL')
    const noisy = assemble(routerCases([round(0, 900, 100)], bar), cpu)
    expect(noisy.verdict.failures.join()).toContain('too noisy')
    expect(assemble(routerCases([round(0, 0, 100)], bar), cpu).verdict.ok).toBe(true)
  })
})

describe('rounds', () => {
  it('take turns, each side in each place, and drop the warm-up', async () => {
    const asked: string[] = []
    const rounds = await runRounds(
      (url) => {
        asked.push(url)
        return Promise.resolve(windowAt(asked.length))
      },
      { decodeUrl: 'd', routerUrl: 'r' },
      { count: 3, warmUpRoundCount: 1, onRound() {} },
    )
    expect(rounds).toHaveLength(3)
    const order = asked.slice(3).join('')
    expect(order).toBe('drdddrrdd')
    expect(rounds[0]?.routed.tokenUs[0]).toBe(5)
  })
})

describe('a window', () => {
  it('goes through a real router as it goes without', async () => {
    const engines = await startStreamingEngines()
    onTestFinished(() => engines.close())
    const { decodeUrl, prefillUrl } = engines
    const router = await startRouter(
      { prefill: [prefillUrl], decode: [decodeUrl], port: 0 },
      { logger: silentLogger },
    )
    onTestFinished(() => router.close())
    const dispatcher = new Agent({ connections: 1 })
    onTestFinished(() => dispatcher.destroy())
    const { signal } = new AbortController()
    const options = { streamCount: 1, startsApartMs: 1, tokenCount: 4, dispatcher, signal }
    for (const url of [decodeUrl, router.url]) {
      const { tokenUs, firstUs } = await runWindow(url, options)
      expect(firstUs).toHaveLength(1)
      expect(tokenUs).toHaveLength(4)
      expect(tokenUs.every((us) => us > 0)).toBe(true)
    }
    await expect(runWindow(`${decodeUrl}/nothing`, { ...options, tokenCount: 0 })).rejects.toThrow()
  })
})

describe('command', () => {
  it.each([
    [[], 'no command: kvferry-bench --help'],
    [['mikro'], "unknown command 'mikro' (Did you mean micro?)"],
    [['micro', '--rooter'], "unknown option '--rooter'"],
    [['micro', 'more'], 'too many arguments'],
    [['micro'], 'one of: --agent, --router'],
    [['micro', '--agent', '--router'], 'one of: --agent, --router'],
    [['micro', '--router', '--pairs', '0'], '--pairs 0'],
    [['micro', '--router', '--json', '/nonexistent/x.json'], 'directory does not exist'],
  ])('refuses %j with one line', async (argv, part) => {
    const lines: string[] = []
    const { signal } = new AbortController()
    const stream = { write: (text: string) => void lines.push(text) }
    expect(await main(argv, { stdout: stream, stderr: stream, signal })).toBe(2)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^kvferry-bench: (?!error)[^\n]+\n$/)
    expect(lines[0]).toContain(part)
  })
})
