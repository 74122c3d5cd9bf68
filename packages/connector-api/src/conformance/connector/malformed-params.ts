/**
 * Wrong forms of a genuine handoff, whatever connector wrote it: each field left out, and each replaced by
 * values of other kinds. For the clause on malformed params; whether a form is wrong enough to be refused is
 * the connector's to say, but it must not throw and must not half-believe it.
 */
import type { KvTransferParams } from '../../connector.ts'

const junk: readonly unknown[] = [
  null,
  true,
  -1,
  1.5,
  Number.MAX_SAFE_INTEGER,
  Number.NaN,
  '',
  'x',
  'x'.repeat(100_000),
  [],
  [[]],
  [[0, 0]],
  [[-1]],
  [['0']],
  Array.from({ length: 100 }, () => [1]),
  {},
  { length: 3 },
]

export function* malformedParams(
  genuine: KvTransferParams,
): Iterable<{ readonly name: string; readonly params: KvTransferParams }> {
  for (const field of Object.keys(genuine)) {
    const rest = Object.fromEntries(Object.entries(genuine).filter(([name]) => name !== field))
    yield { name: `without ${field}`, params: rest }
    for (const [index, value] of junk.entries()) {
      if (JSON.stringify(value) === JSON.stringify(genuine[field])) continue
      yield { name: `${field} of junk ${index}`, params: { ...genuine, [field]: value } }
    }
  }
  yield { name: 'both flags', params: { do_remote_prefill: true, do_remote_decode: true } }
  yield { name: 'the flag alone', params: { do_remote_prefill: true } }
  yield { name: 'nothing', params: {} }
}
