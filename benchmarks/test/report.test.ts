/** `report`: what may stand in one chart, how iterations become one number, and what the charts show. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { combine, loadPointSet, readNumber } from '../src/report/point-set.ts'
import { renderPage } from '../src/report/html-page.ts'
import { metricChart } from '../src/report/sweep-charts.ts'
import { runCommand } from './fake-programs.ts'

let directory = ''
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

/** As `vllm bench serve --save-result` writes it. */
function vllmFile(mode: string, qps: number, inputTokens: number, meanMs: number, iteration = 1) {
  const name = `${mode}_qps${qps}_in${inputTokens}_out128_iter${iteration}.json`
  const content = {
    backend: 'vllm',
    model_id: 'Qwen/Qwen3-32B',
    duration: 10,
    completed: 100,
    mean_ttft_ms: meanMs,
    median_ttft_ms: meanMs - 1,
    p99_ttft_ms: 2 * meanMs,
    mean_tpot_ms: meanMs / 10,
    median_tpot_ms: meanMs / 10,
    p99_tpot_ms: meanMs / 5,
  }
  writeFileSync(join(directory, name), JSON.stringify(content))
}

function writeGrid(): void {
  for (const qps of [1, 8]) {
    for (const inputTokens of [1_024, 16_384]) {
      vllmFile('pull', qps, inputTokens, qps * 50)
      vllmFile('push', qps, inputTokens, qps * 20)
    }
  }
}

const report = (...args: readonly string[]) =>
  runCommand(['report', '--results-dir', directory, ...args])

describe('charts of files from vLLM', () => {
  it('have one line for each mode and rate over the input lengths', async () => {
    writeGrid()
    const svg = join(directory, 'ttft.svg')
    const { exitCode, stderr } = await report('--metric', 'ttft', '--svg', svg)
    expect(stderr).toBe('')
    expect(exitCode).toBe(0)
    const text = readFileSync(svg, 'utf8')
    for (const words of ['Time to first token', 'pull, 8/s', 'push, 1/s', '16k', 'input tokens']) {
      expect(text).toContain(words)
    }
    // Two lengths on each of four lines.
    expect(text.match(/ecmeta_ssr_type="chart"/g)).toHaveLength(8)
  })

  it('go to stdout, and differ by metric and statistic', async () => {
    writeGrid()
    const chart = async (...args: string[]) => (await report('--svg', '-', ...args)).stdout
    const ttft = await chart('--metric', 'ttft')
    expect(ttft).toMatch(/^<svg/)
    expect(await chart('--metric', 'tpot')).toContain('Time per output token')
    expect(await chart('--metric', 'ttft', '--stat', 'p99')).not.toBe(ttft)
  })

  it('and a page of both', async () => {
    writeGrid()
    const html = join(directory, 'page.html')
    expect((await report('--html', html)).exitCode).toBe(0)
    const text = readFileSync(html, 'utf8')
    expect(text).toContain('Time per output token')
    expect(text.match(/<figure/g)).toHaveLength(2)
  })
})

describe('what can not be compared is refused, in one line', () => {
  it('a grid with a hole', async () => {
    writeGrid()
    rmSync(join(directory, 'push_qps8_in16384_out128_iter1.json'))
    const { exitCode, stderr } = await report('--metric', 'ttft', '--svg', '-')
    expect(stderr).toMatch(/the grids don't match: push lacks qps8_in16384_out128_iter1/)
    expect(exitCode).toBe(2)
  })

  it('a mode measured twice, in two directories', () => {
    vllmFile('pull', 1, 64, 5)
    expect(() => loadPointSet([directory, directory])).toThrow(
      /pull has qps1_in64_out128_iter1 twice/,
    )
  })

  it('a file without the numbers, a broken one, and none at all', async () => {
    const name = join(directory, 'pull_qps1_in64_out128_iter1.json')
    writeFileSync(name, '{"completed": 1, "duration": 1}')
    const chart = ['--metric', 'ttft', '--svg', '-']
    expect((await report(...chart)).stderr).toMatch(/mean_ttft_ms is no number/)
    writeFileSync(name, '{"comp')
    expect((await report(...chart)).stderr).toMatch(/iter1.json is no JSON object/)
    rmSync(name)
    expect((await report(...chart)).stderr).toMatch(/no result files named <mode>_qps/)
  })

  it.each<[string[], RegExp]>([
    [[], /say what to write/],
    [['--svg', '-'], /choose what it shows with --metric/],
    [['--metric', 'itl', '--svg', '-'], /--metric itl: use one of ttft, tpot/],
    [['--stat', 'max', '--metric', 'ttft', '--svg', '-'], /--stat max/],
    [['--html', '-'], /--html -: name a file/],
    [['--html', '/no/such/place/x.html'], /the directory does not exist/],
  ])('%j', async (args, message) => {
    writeGrid()
    const { exitCode, stderr } = await report(...args)
    expect(stderr).toMatch(message)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(exitCode).toBe(2)
  })

  it('several output lengths in one chart', async () => {
    vllmFile('pull', 1, 64, 5)
    const other = join(directory, 'pull_qps1_in64_out16_iter1.json')
    const first = join(directory, 'pull_qps1_in64_out128_iter1.json')
    writeFileSync(other, readFileSync(first))
    const chart = ['--metric', 'ttft', '--svg', '-']
    expect((await report(...chart)).stderr).toMatch(/several output lengths \(16, 128\)/)
    expect((await report(...chart, '--output-len', '16')).exitCode).toBe(0)
    expect((await report(...chart, '--output-len', '8')).stderr).toMatch(
      /--output-len 8: there are/,
    )
  })
})

describe('iterations of a point', () => {
  it('become the mean over all requests, or the median of percentiles', () => {
    for (const [iteration, ms] of [10, 20, 60].entries()) vllmFile('pull', 1, 64, ms, iteration + 1)
    const points = loadPointSet([directory])
    const at = (field: string) => (point: (typeof points)[number]) => readNumber(point, field)
    expect(combine(points, at('mean_ttft_ms'), true)?.value).toBe(30)
    expect(combine(points, at('p99_ttft_ms'), false)?.value).toBe(40)
    expect(combine(points, () => null, true)).toBeNull()
  })

  it('are said in the chart', () => {
    vllmFile('pull', 1, 64, 10)
    vllmFile('pull', 1, 64, 20, 2)
    const points = loadPointSet([directory])
    expect(metricChart(points, 'ttft', 'mean')).toContain('mean of 2 iterations, 128 output')
    expect(metricChart(points, 'ttft', 'p99')).toContain('median of 2 iterations')
  })

  it('are drawn in the order of the grid', () => {
    vllmFile('pull', 1, 2_048, 10)
    vllmFile('pull', 1, 16_384, 10)
    expect(loadPointSet([directory]).map(({ point }) => point.inputTokens)).toEqual([2_048, 16_384])
  })
})

it('a page escapes what it shows', () => {
  const page = renderPage({
    title: '<b>',
    lead: ['a & "b"'],
    failures: [],
    warnings: [],
    panels: [],
    tables: [{ title: 't', head: ['<i>'], rows: [["'"]] }],
  })
  expect(page).toContain('<title>&lt;b&gt;</title>')
  expect(page).toContain('<p>a &amp; &quot;b&quot;</p>')
  expect(page).toContain('<td>&#39;</td>')
  expect(page).not.toContain('<i>')
})
