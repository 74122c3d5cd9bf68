/** Checks the form of a post (the caller's types), before any of its values is looked up. */
import { limits } from '../../limits.ts'
import type { TransferPost, TransferSide } from '../../transfer-agent.ts'

function assertSideForm(side: TransferSide | undefined, where: string): void {
  if (typeof side !== 'object' || side === null || typeof side.table !== 'number') {
    throw new TypeError(`${where} must name a table`)
  }
}

/** @throws RangeError when longer than `notificationSizeBytesMax`; TypeError when no bytes. */
export function assertMessage(message: Uint8Array, where: string): void {
  if (!(message instanceof Uint8Array)) throw new TypeError(`${where} must be a Uint8Array`)
  const max = limits.notificationSizeBytesMax
  if (message.length > max) throw new RangeError(`${where}: ${message.length} of ${max} bytes`)
}

/** @throws TypeError for a bad form; RangeError for a deadline or notification out of bounds. */
export function assertPostForm(post: TransferPost, where: string): void {
  if (typeof post !== 'object' || post === null) throw new TypeError(`${where} must be an object`)
  if (post.direction !== 'read' && post.direction !== 'write') {
    throw new TypeError(`${where}.direction: ${String(post.direction)}`)
  }
  assertSideForm(post.local, `${where}.local`)
  assertSideForm(post.remote, `${where}.remote`)
  if (post.notification !== undefined) assertMessage(post.notification, `${where}.notification`)
  const { deadlineMs, path } = post
  if (path !== undefined && !['descriptors', 'slabs', 'ipc'].includes(path)) {
    throw new TypeError(`${where}.path: ${String(path)}`)
  }
  if (deadlineMs === undefined) return
  if (typeof deadlineMs !== 'number') throw new TypeError(`${where}.deadlineMs must be a number`)
  if (!(deadlineMs > 0 && deadlineMs < Infinity)) {
    throw new RangeError(`${where}.deadlineMs: ${deadlineMs}`)
  }
}
