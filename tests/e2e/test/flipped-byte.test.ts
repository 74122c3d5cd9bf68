/**
 * A byte of D's KV that is changed from outside, while the request decodes, must make `compare` fail loudly.
 * `--keep-logs` says where the engines are, `/kvferry/v1/debug` where a block lies.
 */
import { spawn } from 'node:child_process'
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { binOf } from '../src/deployment.ts'
import { waitUntil } from '../src/wait-until.ts'

interface DebugView {
  readonly pid: number
  readonly regions: readonly {
    readonly address: string
    readonly blockStrideBytes: number
  }[]
  readonly requests: readonly { readonly state: string; readonly blockIds: readonly number[] }[]
}

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-e2e-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

interface CompareRun {
  readonly exitCode: number
  /** Table and verdict, and progress. */
  readonly output: string
  readonly result: { readonly runs: readonly Record<string, unknown>[] }
}

async function runCompare(whileRunning: () => Promise<void>): Promise<CompareRun> {
  const resultFile = join(folder, 'result.json')
  const child = spawn(process.execPath, [
    binOf('@kvferry/benchmarks', 'kvferry-bench'),
    ...['compare', '--connectors', 'pull,push', '--posting', 'background', '--preset', 'quick'],
    ...[
      '--requests',
      '40',
      '--qps',
      '20',
      '--keep-logs',
      folder,
      '--debug-endpoints',
      '--json',
      resultFile,
    ],
  ])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => (output += chunk))
  }
  const exit = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? -1)))
  try {
    await whileRunning()
    const exitCode = await exit
    return {
      exitCode,
      output,
      result: JSON.parse(readFileSync(resultFile, 'utf8')) as CompareRun['result'],
    }
  } finally {
    child.kill('SIGTERM')
    await exit
  }
}

/** Inverts one byte of the first block of a request that decodes now. @returns false when there is none. */
async function flipByte(decodeUrl: string): Promise<boolean> {
  const view = (await (await fetch(`${decodeUrl}/kvferry/v1/debug`)).json()) as DebugView
  const request = view.requests.find(({ state }) => state === 'running')
  const block = request?.blockIds[0]
  const region = view.regions[0]
  if (block === undefined || !region) return false
  // User-space addresses are below 2^47, so a number holds them exactly.
  const position = Number(region.address) + block * region.blockStrideBytes
  const memory = openSync(`/proc/${view.pid}/mem`, 'r+')
  try {
    const byte = Buffer.alloc(1)
    readSync(memory, byte, 0, 1, position)
    byte[0] = (byte[0] as number) ^ 0xff
    writeSync(memory, byte, 0, 1, position)
  } finally {
    closeSync(memory)
  }
  return true
}

function decodeUrlOf(name: string): string {
  const cluster = JSON.parse(readFileSync(join(folder, name, 'cluster.json'), 'utf8')) as {
    engines: { role: string; url: string }[]
  }
  const engine = cluster.engines.find(({ role }) => role === 'consumer')
  if (!engine) throw new Error('no decode engine in cluster.json')
  return engine.url
}

const runOf = ({ result }: CompareRun, name: string) =>
  result.runs.find(({ label }) => label === name)

test('a byte flipped in D while it decodes: compare exits 1 and says so', async () => {
  const run = await runCompare(() =>
    waitUntil('a byte was flipped', () => flipByte(decodeUrlOf('pull-1')), 150_000),
  )
  expect(run.exitCode, run.output).toBe(1)
  expect(runOf(run, 'pull')?.['mismatchedBlocks']).toBeGreaterThan(0)
  expect(runOf(run, 'push')?.['mismatchedBlocks']).toBe(0)
  expect(run.output).toMatch(/FAILED: pull: \d+ KV blocks held wrong bytes/)
})

test('control: the same run without the flip succeeds', async () => {
  const run = await runCompare(async () => {})
  expect(run.exitCode, run.output).toBe(0)
  for (const name of ['pull', 'push']) {
    const good = { mismatchedBlocks: 0, failed: 0, bytesVerified: true }
    expect(runOf(run, name), name).toMatchObject(good)
  }
})
