/**
 * The command over the project's own engine, router and connectors, all in this process: the
 * fallback of the demo, and the seams between the harness and what it measures.
 */
import { describe, expect, it } from 'vitest'
import type { CompareResult } from '../src/compare/result.ts'
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
