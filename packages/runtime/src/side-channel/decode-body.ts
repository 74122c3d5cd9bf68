/**
 * msgpack decoding of the side channel's own bodies (hello, refusal), with every length bounded: the
 * decoder allocates what a header announces, and five bytes can announce an array of gigabytes.
 */
import { decode } from '@msgpack/msgpack'
import { sideChannelLimits } from './limits.ts'

const bounds = {
  maxStrLength: sideChannelLimits.refusalSizeBytesMax,
  maxBinLength: 0,
  maxArrayLength: sideChannelLimits.bodyListLengthMax,
  maxMapLength: sideChannelLimits.bodyKeyCountMax,
  maxExtLength: 0,
} as const

/** @throws whatever the decoder throws for bytes that aren't one msgpack map within the bounds. */
export function decodeBody(body: Uint8Array, sizeBytesMax: number): Record<string, unknown> {
  if (body.length > sizeBytesMax)
    throw new RangeError(`${body.length} bytes, at most ${sizeBytesMax}`)
  const decoded = decode(body, bounds)
  if (typeof decoded !== 'object' || decoded === null) throw new TypeError('not a map')
  return decoded as Record<string, unknown>
}
