/**
 * The Random port over the system's CSPRNG, so that tokens and incarnations can't be guessed.
 * Owned by whoever assembles an engine; simulation uses a seeded one instead.
 */
import { randomFillSync, randomInt } from 'node:crypto'
import type { Random } from '@kvferry/connector-api'

/** `randomInt` takes ranges below 2^48. */
const steps = 2 ** 48 - 1

/** @throws RangeError from `bytes` when the count is not a non-negative integer. */
export function createSystemRandom(): Random {
  return {
    uniform: () => randomInt(steps) / steps,
    bytes(count: number): Uint8Array {
      if (!Number.isInteger(count) || count < 0) {
        throw new RangeError(`count must be a non-negative integer, got ${count}`)
      }
      return randomFillSync(new Uint8Array(count))
    },
  }
}
