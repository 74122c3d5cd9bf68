/**
 * Our post against the Python bindings' way to make the same transfer: what the engine's thread pays for
 * 1,024 descriptors. Python's transfers are only made, never posted, which favours Python: posting one
 * would copy its bytes in the call.
 */
import { createDistribution } from '../lib/distribution.ts'
import type { LineProcess } from './line-process.ts'
import { atMost, onlyReported } from './pair-statistics.ts'
import type { DistributionCase, PythonCase } from './result.ts'
import { micro } from './settings.ts'

const rule = 'median of ours at most a third of the median of make_prepped_xfer with numpy indices'
const head = {
  kind: 'python-bindings',
  label: `post of ${micro.post.descriptorCount} descriptors ÷ make_prepped_xfer in Python`,
} as const

export function skippedPython(reason: string): PythonCase {
  return {
    ...head,
    skipped: reason,
    oursUs: null,
    pythonUs: null,
    bar: onlyReported(`${rule} (skipped: ${reason})`, 0),
  }
}

/** `ours` is the case of posts that find the agent at work. */
export async function measurePython(
  python: LineProcess,
  ours: DistributionCase,
): Promise<PythonCase> {
  const { warmUpCount, count, ratioMax } = micro.python
  await python.request(`make ${warmUpCount}`)
  const times = (await python.request(`make ${count}`)).map((ns) => Number(ns) / 1_000)
  if (times.length !== count || !times.every((us) => us > 0)) {
    throw new Error(`${python.name}: ${times.length} times of ${count}, or not all of them times`)
  }
  const pythonUs = createDistribution(times)
  const ratio = (ours.us.p50 ?? Infinity) / (pythonUs.p50 ?? 0)
  return { ...head, skipped: null, oursUs: ours.us, pythonUs, bar: atMost(rule, ratio, ratioMax) }
}
