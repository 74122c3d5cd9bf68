/**
 * The command over the project's own engine, router and connectors, all in this process: the
 * fallback of the demo, and the seams between the harness and what it measures.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CompareResult } from '../src/compare/result.ts'
import type { PointFile } from '../src/sweep/point-file.ts'
import { runCommand } from './fake-programs.ts'

const connectors = ['pull', 'pull:posting=inline', 'push', 'push:progressive=true']

describe('compare --agent memory', () => {
  it('moves, verifies and reports every request through every connector', async () => {
    const load = ['--requests', '16', '--qps', '50', '--connectors', connectors.join(',')]
    const { exitCode, stdout, stderr } = await runCommand([
      'compare',
      '--agent',
      'memory',
      ...load,
      '--json',
      '-',
    ])
    expect(stderr.split('\n')[0]).toMatch(/^IN-MEMORY AGENT/)
    const result = JSON.parse(stdout) as CompareResult
    expect(result.verdict.failures).toEqual([])
    expect(exitCode).toBe(0)
    expect(result.agent).toBe('memory')
    expect(result.runs.map((run) => run.label)).toEqual([
      'oracle',
      'pull',
      'pull-inline',
      'push',
      'push-progressive',
    ])
    const [oracle, ...others] = result.runs
    for (const run of others) {
      expect(run).toMatchObject({
        agent: 'memory',
        requests: 48,
        failed: 0,
        mismatchedBlocks: 0,
        bytesVerified: true,
        blocksHeldAtEnd: 0,
        outputDigest: oracle?.outputDigest,
      })
      // The same requests move the same KV, and each load says what it moved.
      expect(run.bytes, run.label).toBe(others[0]?.bytes)
      expect(run.bytes).toBeGreaterThan(0)
      expect(run.wireMs.count).toBe(16)
      expect(Math.min(...run.wireMs.samples), run.label).toBeGreaterThan(0)
      expect(run.criticalPathMs.count).toBe(16)
      expect(run.breakdown.wire.count).toBeGreaterThan(0)
      expect(run.breakdown.stepBoundary.count).toBe(run.ttftMs.count)
    }
  })
})

describe('sweep --agent memory', () => {
  let directory = ''
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))

  const sweep = (...args: readonly string[]) =>
    runCommand(['sweep', '--agent', 'memory', '--results-dir', directory, ...args])

  it('has every field of compare in its files, for every connector', async () => {
    const point = ['--qps', '50', '--input-lens', '64', '--output-lens', '8', '--requests', '5']
    const set = ['--connectors', 'pull:posting=inline,push', '--hooks', 'both']
    const { exitCode, stdout } = await sweep(...point, ...set)
    expect(stdout).toContain('All checks passed.')
    expect(exitCode).toBe(0)
    const labels = ['pull-inline', 'pull-inline-additive', 'push', 'push-additive']
    const runs = labels.map((label) => {
      const path = join(directory, `${label}_qps50_in64_out8_iter1.json`)
      return (JSON.parse(readFileSync(path, 'utf8')) as PointFile).kvferry.run
    })
    expect(runs.map((run) => run?.hooks)).toEqual([
      'after-launch',
      'additive',
      'after-launch',
      'additive',
    ])
    for (const run of runs) {
      expect(run).toMatchObject({ agent: 'memory', bytesVerified: true, bytes: runs[0]?.bytes })
      expect(run?.wireMs.count).toBe(5)
      expect(run?.blockSecondsHeld.producer).toBeGreaterThan(0)
    }
  })

  it('refuses a model and a place that are none before it starts anything', async () => {
    const model = await sweep('--model', 'gpt-9')
    expect(model.stderr).toMatch(/--model, --kv-scale: .*gpt-9.*qwen3-32b/)
    expect(model.exitCode).toBe(2)
    const place = await sweep('--results-dir', '/dev/null/x')
    expect(place.stderr).toMatch(/--results-dir \/dev\/null\/x: no directory can be made there/)
    expect(place.exitCode).toBe(2)
  })
})
