/** The children of `micro`: a line for a line, every failure told, none left behind; and real bytes. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { KvMemory } from '@kvferry/connector-api'
import { isNixlAvailable } from '@kvferry/native-nixl'
import {
  fillPattern,
  fillUntouched,
  findWrongWord,
  scatteredIds,
} from '../src/micro/child-memory.ts'
import { LineProcess } from '../src/micro/line-process.ts'
import { buildBareLoop, Participants } from '../src/micro/participants.ts'
import { micro } from '../src/micro/settings.ts'

async function start(script: string, signal = new AbortController().signal) {
  const args = ['-e', script]
  const started = await LineProcess.start({
    name: 'child',
    command: process.execPath,
    args,
    env: { FROM_TEST: '1' },
    signal,
  })
  onTestFinished(() => started.process.stop())
  return started
}

const echo = `
  console.log('ready', process.pid, process.env.FROM_TEST)
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    if (line === 'die') { console.error('last words'); process.exit(3) }
    if (line === 'refuse') console.log('error because')
    else if (line !== 'silence') console.log('ok', line)
  })`

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('line process', () => {
  it('answers a line with a line and ends with its input', async () => {
    const { process: child, words } = await start(echo)
    expect(words[1]).toBe('1')
    expect(await child.request('a b')).toEqual(['a', 'b'])
    expect(await child.request('c')).toEqual(['c'])
    await child.stop()
    expect(isAlive(Number(words[0]))).toBe(false)
    await child.stop()
  })

  it('tells refusals and deaths with the last lines of stderr', async () => {
    const { process: child } = await start(echo)
    await expect(child.request('refuse')).rejects.toThrow('child: error because')
    await expect(child.request('die')).rejects.toThrow(/child: ended \(exit code 3\)[^]*last words/)
    expect(() => child.request('more')).toThrow('ended')
  })

  it('tells a child that ends before it is ready, or does not exist', async () => {
    await expect(start('process.exit(4)')).rejects.toThrow('exit code 4')
    const missing = { name: 'none', command: '/nonexistent/program', args: [], env: {} }
    const { signal } = new AbortController()
    await expect(LineProcess.start({ ...missing, signal })).rejects.toThrow('could not start')
  })

  it('stops waiting when it is interrupted, and kills', async () => {
    const interrupted = new AbortController()
    const { process: child, words } = await start(echo, interrupted.signal)
    const waiting = child.request('silence')
    interrupted.abort(new Error('Ctrl-C'))
    await expect(waiting).rejects.toThrow('Ctrl-C')
    await child.stop()
    expect(isAlive(Number(words[0]))).toBe(false)
  })
})

describe('memory of a child', () => {
  const block = micro.descriptorSizeBytes
  const memoryOf = (blockCount: number): KvMemory => ({
    kind: 'host',
    sizeBytes: blockCount * block,
    bytes: new Uint8Array(blockCount * block),
    free() {},
  })

  it('finds a wrong byte, a missing block and a stray one', () => {
    const source = memoryOf(8)
    const sink = memoryOf(8)
    fillPattern(source)
    fillUntouched(sink)
    for (const id of scatteredIds(0, 3)) {
      sink.bytes!.set(source.bytes!.subarray(id * block, (id + 1) * block), id * block)
    }
    expect(findWrongWord(sink, 3)).toBeNull()
    expect(findWrongWord(sink, 4)).toBe((6 * block) / 4)
    expect(findWrongWord(sink, 2)).toBe((4 * block) / 4)
    sink.bytes!.fill(0, 5 * block + 7, 5 * block + 8)
    expect(findWrongWord(sink, 3)).toBe((5 * block + 4) / 4)
  })
})

const childScript = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist', 'micro-child.js')
const available = isNixlAvailable()
const isRequired = process.env['KVFERRY_REQUIRE_NIXL'] === '1'
const canRun = available.available && existsSync(childScript)

describe.skipIf(!canRun && !isRequired)('over real NIXL (needs it, and the build)', () => {
  it('both initiators read the same bytes, and say so when one is wrong', async () => {
    if (!available.available) throw available.error
    const { signal } = new AbortController()
    const bareLoop = await buildBareLoop()
    const participants = new Participants({ libraryPath: available.path, bareLoop, signal })
    onTestFinished(() => participants.stop())
    for (const kind of ['bare', 'ours'] as const) {
      const { initiator } = await participants.side(kind, kind)
      const [ns] = await initiator.request(`run ${1_048_576} 2`)
      expect(Number(ns)).toBeGreaterThan(0)
      expect(
        await initiator.request(`verify ${(2 * 1_048_576) / micro.descriptorSizeBytes}`),
      ).toEqual([])
      await expect(initiator.request('verify 1')).rejects.toThrow('a byte is wrong')
    }
  })
})
