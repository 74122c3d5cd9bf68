/**
 * The side channel's unit on the wire: length (u32, big-endian), then one msgpack array
 * `[type, id, kind, body]` (string, unsigned integer, string, binary). Pure. Bodies are opaque here.
 *
 * Reading is done by hand at the four fixed places: a general decoder would first build whatever nested
 * structure a hostile frame describes (a mebibyte of "array of one" is a million objects). Writing is, too:
 * engines write frames in the middle of a step, and of a frame only id, kind and body are not known before.
 */
import { ConnectorError, limits } from '@kvferry/connector-api'
import { sideChannelLimits } from './limits.ts'

/**
 * `hello` opens both directions; `request` is followed by one `answer` or `refusal` with its id; `send`
 * has no answer; `close` says goodbye. A `refusal` with id 0 ends the connection and says why.
 */
export const frameTypes = ['hello', 'request', 'answer', 'refusal', 'send', 'close'] as const
export type FrameType = (typeof frameTypes)[number]

export interface Frame {
  readonly type: FrameType
  /** Chosen by the requester; 0 in frames that belong to no request. */
  readonly id: number
  /** Names the handler of a request or send; empty otherwise. */
  readonly kind: string
  readonly body: Uint8Array
}

export const lengthSizeBytes = 4
const noBody = new Uint8Array(0)
const printablePattern = /^[\x21-\x7e]*$/
const kindPattern = new RegExp(`^[\\x21-\\x7e]{1,${sideChannelLimits.kindLengthMax}}$`)

export const isKind = (kind: string): boolean => kindPattern.test(kind)

export const invalidFrame = (reason: string): ConnectorError<'ERR_KV_MESSAGE_INVALID'> =>
  new ConnectorError('ERR_KV_MESSAGE_INVALID', `malformed side-channel frame: ${reason}`, {
    where: 'side-channel-frame',
    reason,
  })

/** What speaks when the first four bytes are no length of ours, for the person who mistook the port. */
function foreignProtocol(lengthBytes: number): string | null {
  const bytes = Uint8Array.of(
    lengthBytes >>> 24,
    lengthBytes >>> 16,
    lengthBytes >>> 8,
    lengthBytes,
  )
  const text = String.fromCharCode(...bytes)
  if (text === 'HTTP') return 'an HTTP server, where a side channel was expected'
  if (/^(GET |POST|HEAD|PUT |PRI )/.test(text)) return 'an HTTP client'
  if ((bytes[0] === 0x15 || bytes[0] === 0x16) && bytes[1] === 3)
    return 'TLS, where plain TCP was expected'
  return null
}

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID unless a frame of that many bytes may follow. */
export function checkFrameLength(lengthBytes: number): void {
  if (lengthBytes === 0) throw invalidFrame('empty')
  if (lengthBytes > limits.frameSizeBytesMax) {
    const foreign = foreignProtocol(lengthBytes)
    if (foreign !== null) throw invalidFrame(`this is ${foreign}`)
    throw invalidFrame(`${lengthBytes} bytes announced, at most ${limits.frameSizeBytesMax}`)
  }
}

/** `[type`, of which nothing changes. */
const heads = new Map<FrameType, Buffer>(
  frameTypes.map((type) => {
    const text = `\x94${String.fromCharCode(0xa0 + type.length)}${type}`
    return [type, Buffer.from(text, 'latin1')]
  }),
)
/** One for all: what comes before the body is written here, and copied from once. */
const beginning = Buffer.alloc(sideChannelLimits.kindLengthMax + 32)

/**
 * Length and frame, ready for the socket. `kind`: as `isKind` has it, or empty.
 * @throws ConnectorError ERR_KV_LIMIT when it is too large.
 */
export function encodeFrame(
  type: FrameType,
  { id = 0, kind = '', body = noBody }: Partial<Omit<Frame, 'type'>> = {},
): Uint8Array {
  const head = heads.get(type)!
  beginning.set(head, lengthSizeBytes)
  let at = writeId(beginning, lengthSizeBytes + head.length, id)
  at = writeText(beginning, at, kind)
  at = writeBodyHead(beginning, at, body.length)
  const contentSizeBytes = at - lengthSizeBytes + body.length
  if (contentSizeBytes > limits.frameSizeBytesMax) {
    throw new ConnectorError(
      'ERR_KV_LIMIT',
      `side-channel message of ${body.length} bytes exceeds a frame`,
      { limit: 'frameSizeBytesMax', value: contentSizeBytes, max: limits.frameSizeBytesMax },
    )
  }
  beginning.writeUInt32BE(contentSizeBytes, 0)
  const frame = Buffer.allocUnsafe(at + body.length)
  beginning.copy(frame, 0, 0, at)
  frame.set(body, at)
  return frame
}

/** In msgpack’s shortest form, as all three; each answers the place after it. */
function writeId(to: Buffer, at: number, id: number): number {
  if (id <= 0x7f) return to.writeUInt8(id, at)
  if (id <= 0xff) return to.writeUInt8(id, to.writeUInt8(0xcc, at))
  if (id <= 0xffff) return to.writeUInt16BE(id, to.writeUInt8(0xcd, at))
  return to.writeUInt32BE(id, to.writeUInt8(0xce, at))
}

/** ASCII of at most `kindLengthMax`. */
function writeText(to: Buffer, at: number, text: string): number {
  const { length } = text
  const next =
    length <= 0x1f
      ? to.writeUInt8(0xa0 + length, at)
      : to.writeUInt8(length, to.writeUInt8(0xd9, at))
  return next + to.write(text, next, 'latin1')
}

function writeBodyHead(to: Buffer, at: number, length: number): number {
  if (length <= 0xff) return to.writeUInt8(length, to.writeUInt8(0xc4, at))
  if (length <= 0xffff) return to.writeUInt16BE(length, to.writeUInt8(0xc5, at))
  return to.writeUInt32BE(length, to.writeUInt8(0xc6, at))
}

/** A position in one frame; every read checks what is left before it looks. */
class Cursor {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get remainingBytes(): number {
    return this.#bytes.length - this.#at
  }

  take(count: number): Uint8Array {
    if (count > this.remainingBytes) throw invalidFrame('truncated')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  unsigned(sizeBytes: 1 | 2 | 4): number {
    const at = this.#at
    this.take(sizeBytes)
    if (sizeBytes === 1) return this.#view.getUint8(at)
    return sizeBytes === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at)
  }
}

/** ASCII only, which all types and kinds are. */
function readText(cursor: Cursor): string {
  const head = cursor.unsigned(1)
  let length: number
  if (head >= 0xa0 && head <= 0xbf) length = head - 0xa0
  else if (head === 0xd9) length = cursor.unsigned(1)
  else throw invalidFrame('a short string was expected')
  const text = String.fromCharCode(...cursor.take(length))
  if (!printablePattern.test(text)) throw invalidFrame('not printable ASCII')
  return text
}

function readId(cursor: Cursor): number {
  const head = cursor.unsigned(1)
  if (head <= 0x7f) return head
  if (head === 0xcc) return cursor.unsigned(1)
  if (head === 0xcd) return cursor.unsigned(2)
  if (head === 0xce) return cursor.unsigned(4)
  throw invalidFrame('an unsigned 32-bit id was expected')
}

function readBody(cursor: Cursor): Uint8Array {
  const head = cursor.unsigned(1)
  if (head === 0xc4) return cursor.take(cursor.unsigned(1))
  if (head === 0xc5) return cursor.take(cursor.unsigned(2))
  if (head === 0xc6) return cursor.take(cursor.unsigned(4))
  throw invalidFrame('a binary body was expected')
}

const isFrameType = (text: string): text is FrameType =>
  (frameTypes as readonly string[]).includes(text)

/** One frame without its length. The body is a view, not a copy. @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function decodeFrame(bytes: Uint8Array): Frame {
  const cursor = new Cursor(bytes)
  if (cursor.unsigned(1) !== 0x94) throw invalidFrame('an array of four was expected')
  const type = readText(cursor)
  if (!isFrameType(type)) throw invalidFrame('unknown frame type')
  const id = readId(cursor)
  const kind = readText(cursor)
  const body = readBody(cursor)
  if (cursor.remainingBytes > 0) throw invalidFrame('bytes after the end')
  const isNamed = type === 'request' || type === 'send'
  if (isNamed ? !isKind(kind) : kind !== '') throw invalidFrame('wrong kind for its type')
  return { type, id, kind, body }
}
