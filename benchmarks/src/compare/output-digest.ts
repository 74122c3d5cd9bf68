/**
 * One value for all texts of a run: equal across connectors and to the oracle's, or something is wrong.
 * Each text goes in with its index and length, so that texts can't run into one another.
 */
import { createHash } from 'node:crypto'
import type { RequestRecord } from './load-client.ts'

export function outputDigest(records: readonly RequestRecord[]): string {
  const hash = createHash('sha256')
  const ordered = [...records].sort((a, b) => a.planned.index - b.planned.index)
  for (const { planned, text } of ordered) {
    hash
      .update(`${planned.index}:${Buffer.byteLength(text)}:`)
      .update(text)
      .update('\n')
  }
  return hash.digest('hex')
}
