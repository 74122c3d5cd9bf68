/** The comparison with NIXL's Python bindings: judged from a child's times, skipped with its reason. */
import { expect, it, onTestFinished } from 'vitest'
import { createDistribution } from '../src/lib/distribution.ts'
import { LineProcess } from '../src/micro/line-process.ts'
import { buildBareLoop, Participants } from '../src/micro/participants.ts'
import { atMost } from '../src/micro/pair-statistics.ts'
import { measurePython, skippedPython } from '../src/micro/python-case.ts'
import type { DistributionCase } from '../src/micro/result.ts'

const ours: DistributionCase = {
  kind: 'post-js-thread',
  label: 'post',
  us: createDistribution([9, 10, 11]),
  bar: atMost('r', 10, 30),
}

/** A child that answers `make N` with what the expression says for each `i`. */
async function child(answer: string) {
  const script = `
    console.log('ready 3.11')
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const count = Number(line.split(' ')[1])
      console.log('ok', ...Array.from({ length: count }, (_, i) => ${answer}))
    })`
  const started = await LineProcess.start({
    ...{ name: 'python', command: process.execPath, args: ['-e', script], env: {} },
    signal: new AbortController().signal,
  })
  onTestFinished(() => started.process.stop())
  return started.process
}

it('compares medians: a third passes, more fails', async () => {
  const third = await measurePython(await child('30000 + i % 3'), ours)
  expect(third).toMatchObject({ skipped: null, bar: { limit: 1 / 3, verdict: 'pass' } })
  expect(third.bar.value).toBeCloseTo(1 / 3, 3)
  expect(third.pythonUs?.count).toBe(500)
  const slower = await measurePython(await child('29000'), ours)
  expect(slower.bar.verdict).toBe('fail')
})

it('refuses answers that are no times', async () => {
  await expect(measurePython(await child("'x'"), ours)).rejects.toThrow('not all of them times')
  await expect(measurePython(await child('0'), ours)).rejects.toThrow('not all of them times')
})

it('says why it was skipped, and judges nothing then', () => {
  const skipped = skippedPython('no Python')
  expect(skipped).toMatchObject({ skipped: 'no Python', oursUs: null, pythonUs: null })
  expect(skipped.bar).toMatchObject({ limit: null, verdict: 'reported' })
})

it('a Python without the bindings is an error that names them, not a skip', async () => {
  const participants = new Participants({
    libraryPath: '/nonexistent',
    bareLoop: await buildBareLoop(),
    signal: new AbortController().signal,
  })
  onTestFinished(() => participants.stop())
  // Isolated, and without the folders where packages lie.
  const bare = 'python3'
  await expect(participants.python(bare, ['-I', '-S'])).rejects.toThrow(
    /python: error No module named|no NIXL bindings/,
  )
})
