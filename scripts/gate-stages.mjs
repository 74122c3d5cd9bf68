// When each gate of `npm test` runs, and beside which others. Knows their names alone.

/**
 * Stages run one after another, the lanes of a stage at the same time, the gates of a lane one after another. A lane
 * takes about one core: of the checks the one that has most to do, and the others; real vLLM, beside the compilers of
 * the C++ tests; the processes, which wait a lot, and beside them the addon's tests, with and without a sanitizer,
 * and the rest of the processes.
 * Unit tests take both cores. Real vLLM's tests compare whole listings of shared memory, so nothing that makes files
 * there runs beside them.
 */
export const stages = [
  [['types-lint'], ['tidy', 'scripts', 'check-packages', 'format', 'links', 'docs']],
  [['unit']],
  [['native-asan'], ['native-tsan'], ['vllm']],
  [['processes'], ['native-node-asan', 'native-node', 'processes-2']],
]

/** @throws Error naming the gates that no lane has, or that more than one place has: they'd be lost, or run twice. */
export function assertPlaced(names, placed = stages) {
  const places = placed.flat(2)
  const wrong = [...new Set([...names, ...places])].filter(
    (name) => !names.includes(name) || places.filter((place) => place === name).length !== 1,
  )
  if (wrong.length > 0) throw new Error(`not in just one lane: ${wrong.join(', ')}`)
}

/**
 * Runs the gates of `chosen` stages with `runGate`, which answers a result and doesn't reject: later gates run
 * although an earlier one failed. Resolves with the results in the order of the stages.
 */
export async function runStages(chosen, runGate) {
  const runLane = async (names) => {
    const results = []
    for (const name of names) results.push(await runGate(name))
    return results
  }
  const results = []
  for (const lanes of chosen) results.push(...(await Promise.all(lanes.map(runLane))).flat())
  return results
}
