/**
 * Checks the form of posts (TypeError) and lays them out as the flat lists that C++ reads. Ranges, ids and
 * handles are checked in C++, in one pass over the arrays. Nothing here is made per block.
 */
import {
  ConnectorError,
  limits,
  type TransferPost,
  type TransferSide,
} from '@kvferry/connector-api'
import type { NativePosts } from './binding.ts'

const directions: Readonly<Record<string, number | undefined>> = { read: 0, write: 1 }

const paths: Readonly<Record<string, number | undefined>> = { descriptors: 0, slabs: 1, ipc: 2 }

const numbersPerPost = 8
const handleAt = 7
const noFence = -1

/** Used again by the next call: to make a typed array costs more than to fill it. Null while in use. */
let spareNumbers: Float64Array | null = new Float64Array(16 * numbersPerPost)

/**
 * Lays `posts` out, has `send` send them, and answers their handles.
 * @throws TypeError for a form that is no post; RangeError for a deadline that is no duration; ConnectorError
 *   ERR_KV_LIMIT for more posts than can ever be open, since a call of C++ has room for no more lists.
 */
export function sendPosts(
  posts: readonly TransferPost[],
  send: (numbers: Float64Array, lists: NativePosts['lists']) => void,
): number[] {
  if (!Array.isArray(posts)) throw new TypeError('posts must be an array')
  const count = posts.length
  const max = limits.transfersInFlightMax
  if (count > max) {
    const details = { limit: 'transfersInFlightMax', value: count, max }
    throw new ConnectorError('ERR_KV_LIMIT', `post: transfersInFlightMax is ${max}`, details)
  }
  let numbers = spareNumbers
  // A getter of a post may post as well.
  spareNumbers = null
  if (numbers === null || numbers.length < count * numbersPerPost) {
    numbers = new Float64Array(count * numbersPerPost)
  }
  try {
    const lists: NativePosts['lists'] = []
    for (let i = 0; i < count; i++) layOut(posts[i], numbers, i * numbersPerPost, lists)
    send(numbers, lists)
    const handles: number[] = []
    for (let i = 0; i < count; i++) handles.push(numbers[i * numbersPerPost + handleAt]!)
    return handles
  } finally {
    spareNumbers = numbers
  }
}

function layOut(
  post: TransferPost,
  numbers: Float64Array,
  at: number,
  lists: NativePosts['lists'],
): void {
  if (typeof post !== 'object' || post === null) throw new TypeError('a post must be an object')
  const direction = directions[post.direction]
  if (direction === undefined) {
    throw new TypeError(`direction must be "read" or "write", not ${String(post.direction)}`)
  }
  const path = paths[post.path ?? 'descriptors']
  if (path === undefined) {
    throw new TypeError(
      `path must be one of ${Object.keys(paths).join(', ')}, not ${String(post.path)}`,
    )
  }
  numbers[at] = direction
  numbers[at + 1] = handle(post.peer, 'peer')
  numbers[at + 2] = post.after === undefined ? noFence : fenceOf(post.after?.handle)
  numbers[at + 3] = deadline(post.deadlineMs ?? limits.transferDeadlineMs)
  numbers[at + 4] = path
  lists.push(post.notification === undefined ? null : bytes(post.notification, 'notification'))
  numbers[at + 5] = pushSide(lists, post.local, 'local')
  numbers[at + 6] = pushSide(lists, post.remote, 'remote')
}

/** What a caller makes up is never taken for "no fence". */
function fenceOf(value: unknown): number {
  const fence = handle(value, 'after.handle')
  return fence === noFence ? NaN : fence
}

/** Answers the side's table. */
function pushSide(lists: NativePosts['lists'], side: TransferSide, name: string): number {
  if (typeof side !== 'object' || side === null) throw new TypeError(`${name} must be a side`)
  const table = handle(side.table, `${name}.table`)
  if ('blockIds' in side) {
    if (!(side.blockIds instanceof Uint32Array)) {
      throw new TypeError(`${name}.blockIds must be a Uint32Array`)
    }
    lists.push(side.blockIds)
    return table
  }
  if (!(side.regions instanceof Uint32Array)) {
    throw new TypeError(`${name} must have blockIds, or regions as a Uint32Array`)
  }
  if (!(side.offsets instanceof Float64Array) || !(side.lengths instanceof Float64Array)) {
    throw new TypeError(`${name}.offsets and ${name}.lengths must be Float64Arrays`)
  }
  if (side.offsets.length !== side.regions.length || side.lengths.length !== side.regions.length) {
    throw new TypeError(`${name}: regions, offsets and lengths differ in length`)
  }
  lists.push([side.regions, side.offsets, side.lengths])
  return table
}

/** @throws TypeError when it is no number. Whether it is a live handle is for C++ to say. */
export function handle(value: unknown, name: string): number {
  if (typeof value !== 'number') throw new TypeError(`${name} must be a handle`)
  return value
}

/** @throws TypeError */
export function bytes(value: unknown, name: string): Uint8Array {
  if (!(value instanceof Uint8Array)) throw new TypeError(`${name} must be a Uint8Array`)
  return value
}

/** Whole milliseconds, rounded up. @throws RangeError for zero, negative and not finite ones. */
export function deadline(milliseconds: number): number {
  if (typeof milliseconds !== 'number') throw new TypeError('deadlineMs must be a number')
  if (!(milliseconds > 0) || milliseconds > Number.MAX_SAFE_INTEGER) {
    throw new RangeError(`deadlineMs must be a positive duration, not ${milliseconds}`)
  }
  return Math.ceil(milliseconds)
}
