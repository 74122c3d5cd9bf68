/**
 * Which blocks of a finished request the writer may copy. Prefix-closed: a block is of no use without those
 * before it, so at the first one that isn't admitted it stops, and what is missing after that is counted
 * under the same reason, whatever it would have been on its own. A long prompt keeps its beginning. Pure.
 */
import type { HistoryPolicy } from './history-policy.ts'

export interface AdmissionRequest {
  readonly blockCount: number
  isStored(index: number): boolean
  isSeen(index: number): boolean
}

export interface AdmissionRoom {
  /** Blocks of both tiers. */
  readonly capacity: number
  readonly entryCount: number
  /** Blocks that one request may have copied. */
  readonly candidateCountMax: number
}

export interface Admission {
  /** Positions in the request, ascending, none of them stored. */
  readonly candidates: readonly number[]
  /** Candidates that had been seen before. */
  readonly reused: number
  /** Missing blocks that are not candidates, by the reason of the first of them; at most one is above 0. */
  readonly rejected: number
  readonly limitedByRequest: number
  readonly limitedByCapacity: number
}

type Refusal = 'rejected' | 'limitedByRequest' | 'limitedByCapacity'

export function admit(
  policy: HistoryPolicy,
  request: AdmissionRequest,
  room: AdmissionRoom,
): Admission {
  const candidates: number[] = []
  const missing = { rejected: 0, limitedByRequest: 0, limitedByCapacity: 0 }
  let refusal: Refusal | null = null
  let freeCount = room.capacity - room.entryCount
  let reused = 0
  for (let index = 0; index < request.blockCount; index += 1) {
    const isStored = request.isStored(index)
    if (refusal === null && index >= room.capacity) refusal = 'limitedByCapacity'
    if (isStored) continue
    const isSeen = refusal === null && request.isSeen(index)
    refusal ??= reasonAgainst(policy, isSeen, freeCount, candidates.length, room)
    if (refusal !== null) {
      missing[refusal] += 1
      continue
    }
    candidates.push(index)
    freeCount = Math.max(0, freeCount - 1)
    if (isSeen) reused += 1
  }
  return { candidates, reused, ...missing }
}

function reasonAgainst(
  policy: HistoryPolicy,
  isSeen: boolean,
  freeCount: number,
  candidateCount: number,
  room: AdmissionRoom,
): Refusal | null {
  if (candidateCount >= room.candidateCountMax) return 'limitedByRequest'
  return policy.isEligible({ hasFreeSlot: freeCount > 0, isSeen }) ? null : 'rejected'
}
