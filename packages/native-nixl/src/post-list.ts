/**
 * Checks the form of posts (TypeError) and lays them out as the flat list that C++ reads. Ranges, ids and
 * handles are checked in C++, in one pass over the arrays. Nothing here is made per block.
 */
import { limits, type TransferPost, type TransferSide } from '@kvferry/connector-api'
import type { NativePosts } from './binding.ts'

const directions: Readonly<Record<string, number | undefined>> = { read: 0, write: 1 }

const paths: Readonly<Record<string, number | undefined>> = { descriptors: 0, slabs: 1 }

/** @throws TypeError for a form that is no post; RangeError for a deadline that is no duration. */
export function layOutPosts(posts: readonly TransferPost[]): NativePosts {
  if (!Array.isArray(posts)) throw new TypeError('posts must be an array')
  const list: NativePosts = []
  for (const post of posts as readonly TransferPost[]) {
    if (typeof post !== 'object' || post === null) throw new TypeError('a post must be an object')
    const direction = directions[post.direction]
    if (direction === undefined) {
      throw new TypeError(`direction must be "read" or "write", not ${String(post.direction)}`)
    }
    const path = paths[post.path ?? 'descriptors']
    if (path === undefined) {
      throw new TypeError(`path must be "descriptors" or "slabs", not ${String(post.path)}`)
    }
    list.push(direction, handle(post.peer, 'peer'))
    list.push(post.after === undefined ? null : handle(post.after?.handle, 'after.handle'))
    list.push(post.notification === undefined ? null : bytes(post.notification, 'notification'))
    list.push(deadline(post.deadlineMs ?? limits.transferDeadlineMs))
    list.push(path)
    pushSide(list, post.local, 'local')
    pushSide(list, post.remote, 'remote')
  }
  return list
}

function pushSide(list: NativePosts, side: TransferSide, name: string): void {
  if (typeof side !== 'object' || side === null) throw new TypeError(`${name} must be a side`)
  const table = handle(side.table, `${name}.table`)
  if ('blockIds' in side) {
    if (!(side.blockIds instanceof Uint32Array)) {
      throw new TypeError(`${name}.blockIds must be a Uint32Array`)
    }
    list.push(table, side.blockIds, null, null)
    return
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
  list.push(table, side.regions, side.offsets, side.lengths)
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
