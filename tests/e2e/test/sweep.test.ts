/** `sweep` over real engines and NIXL: one point, each connector, every byte verified, and the bytes that were moved. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { binOf } from '../src/deployment.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-e2e-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

interface Point {
  readonly completed: number
  readonly kvferry: { readonly run: Readonly<Record<string, unknown>> }
}

async function runSweep(flags: readonly string[]): Promise<{ exitCode: number; output: string }> {
  const program = binOf('@kvferry/benchmarks', 'kvferry-bench')
  const child = spawn(process.execPath, [program, 'sweep', '--results-dir', folder, ...flags])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => (output += chunk))
  }
  const exit = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? -1)))
  try {
    return { exitCode: await exit, output }
  } finally {
    child.kill('SIGTERM')
  }
}

test('one point with pull, push and push in chunks: the same texts and bytes, all verified', async () => {
  const names = ['pull-inline', 'push', 'push-progressive']
  const { exitCode, output } = await runSweep([
    ...['--connectors', 'pull:posting=inline,push,push:progressive=true'],
    ...['--qps', '8', '--input-lens', '256', '--output-lens', '4', '--requests', '8'],
    ...['--warm-up', '1', '--max-num-batched-tokens', '64'],
  ])
  expect(exitCode, output).toBe(0)
  const files = names.map((name) => `${name}_qps8_in256_out4_iter1.json`)
  expect(
    readdirSync(folder)
      .filter((name) => name.endsWith('.json'))
      .sort(),
  ).toEqual([...files].sort())
  const points = files.map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Point)
  const [first] = points
  for (const { completed, kvferry } of points) {
    expect(completed).toBe(8)
    expect(kvferry.run).toMatchObject({
      ...{ agent: 'nixl', failed: 0, mismatchedBlocks: 0, bytesVerified: true },
      outputDigest: first?.kvferry.run['outputDigest'],
      bytes: first?.kvferry.run['bytes'],
    })
    expect(kvferry.run['bytes']).toBeGreaterThan(0)
  }
})
