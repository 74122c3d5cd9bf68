// What runs beside what in `npm test`, and that no gate is lost.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertPlaced, runStages, stages } from './gate-stages.mjs'

/** Begin and end of each gate, as they come; each takes a few turns of the event loop. */
async function transcriptOf(chosen) {
  const transcript = []
  const results = await runStages(chosen, async (name) => {
    transcript.push(`${name} begins`)
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    transcript.push(`${name} ends`)
    return name
  })
  return { transcript, results }
}

test('lanes of a stage run at the same time, gates of a lane and stages one after another', async () => {
  const { transcript, results } = await transcriptOf([[['a', 'b'], ['c']], [['d']]])
  const at = (event) => transcript.indexOf(event)
  assert.ok(at('c begins') < at('a ends'), 'lanes at the same time')
  assert.ok(at('a begins') < at('c ends'), 'lanes at the same time')
  assert.ok(at('a ends') < at('b begins'), 'gates of a lane')
  assert.ok(Math.max(at('b ends'), at('c ends')) < at('d begins'), 'stages')
  assert.deepEqual(results, ['a', 'b', 'c', 'd'])
})

test('a gate without a place, with two, or that does not exist is named', () => {
  const placed = [[['a', 'b'], ['b']], [['c']]]
  assert.throws(() => assertPlaced(['a', 'b', 'd'], placed), /just one lane: b, d, c$/)
  assert.doesNotThrow(() => assertPlaced(['a', 'c'], [[['a'], ['c']]]))
})

test('nothing that makes files in shared memory runs beside real vLLM', () => {
  const lanes = stages.find((stage) => stage.flat().includes('vllm'))
  const beside = lanes.flat().filter((name) => name !== 'vllm')
  // Of the C++ tests each process has its memory to itself.
  assert.deepEqual(beside.sort(), ['native-asan', 'native-tsan'])
})
