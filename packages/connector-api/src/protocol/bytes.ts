/**
 * Bounded little-endian writer and reader, the only code of the protocols that touches raw bytes. The
 * writer refuses values that would not survive the trip (RangeError: the caller's mistake); the reader
 * trusts nothing: every length is checked against what is left and against the caller's bound, and
 * anything wrong is ERR_KV_MESSAGE_INVALID.
 */
import { ConnectorError } from '../index.ts'

// ignoreBOM keeps a leading U+FEFF, which would otherwise vanish and change an id.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const utf8Size = (text: string): number => Buffer.byteLength(text)

/** Lower-case hexadecimal; a view is read, not copied. */
export const hexOf = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('hex')

/** Whether a message carries it as it is: every half of a surrogate pair arrives as the same character. */
export const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** What a writer writes into, seen in three ways. */
interface Scratch {
  readonly bytes: Buffer<ArrayBuffer>
  readonly copied: Uint8Array<ArrayBuffer>
  readonly view: DataView
}

const scratchOf = (sizeBytes: number): Scratch => {
  const buffer = new ArrayBuffer(sizeBytes)
  const view = new DataView(buffer)
  return { bytes: Buffer.from(buffer), copied: new Uint8Array(buffer), view }
}

/** Most messages fit. */
const initialSizeBytes = 512
const spareSizeBytesMax = 65_536
/** Used again by the next writer: to make one costs more than most messages. Null while one is at work. */
let spare: Scratch | null = null
/** Of a writer that has finished: nothing more fits. */
const noScratch = scratchOf(0)

function takeScratch(): Scratch {
  const scratch = spare ?? scratchOf(initialSizeBytes)
  spare = null
  return scratch
}

export class ByteWriter {
  #sizeMax: number
  #scratch = takeScratch()
  #size = 0

  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax
  }

  u8(value: number): this {
    checkInteger(value, 0xff)
    const at = this.#reserve(1)
    this.#scratch.view.setUint8(at, value)
    return this
  }

  u16(value: number): this {
    checkInteger(value, 0xffff)
    const at = this.#reserve(2)
    this.#scratch.view.setUint16(at, value, true)
    return this
  }

  u32(value: number): this {
    checkInteger(value, 0xffff_ffff)
    const at = this.#reserve(4)
    this.#scratch.view.setUint32(at, value, true)
    return this
  }

  f64(value: number): this {
    if (!Number.isFinite(value)) throw new RangeError(`${value} is not finite`)
    const at = this.#reserve(8)
    this.#scratch.view.setFloat64(at, value, true)
    return this
  }

  /** Bytes without a length: the reader knows it. */
  fixed(bytes: Uint8Array): this {
    const at = this.#reserve(bytes.length)
    this.#scratch.bytes.set(bytes, at)
    return this
  }

  bytes(bytes: Uint8Array): this {
    return this.u32(bytes.length).fixed(bytes)
  }

  string(text: string): this {
    const size = utf8Size(text)
    this.u16(size)
    const at = this.#reserve(size)
    this.#scratch.bytes.write(text, at, 'utf8')
    return this
  }

  /** In one copy: memory is little-endian on every platform that we run on. */
  u32List(values: Uint32Array): this {
    this.u32(values.length)
    return this.fixed(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
  }

  /** A copy of exactly what was written, on memory of its own. The writer is done: it takes nothing more. */
  finish(): Uint8Array {
    const scratch = this.#scratch
    const written = scratch.copied.slice(0, this.#size)
    if (scratch.bytes.length <= spareSizeBytesMax) spare = scratch
    this.#scratch = noScratch
    this.#sizeMax = this.#size = 0
    return written
  }

  #reserve(size: number): number {
    const at = this.#size
    const needed = at + size
    if (needed > this.#sizeMax) throw new RangeError(`message exceeds ${this.#sizeMax} bytes`)
    const { bytes } = this.#scratch
    if (needed > bytes.length) {
      this.#scratch = scratchOf(Math.max(needed, 2 * bytes.length))
      this.#scratch.bytes.set(bytes.subarray(0, at))
    }
    this.#size = needed
    return at
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #where: string
  #at = 0

  /** `where` names the message in errors. */
  constructor(bytes: Uint8Array, where: string) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#where = where
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1))
  }

  u16(): number {
    return this.#view.getUint16(this.#take(2), true)
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true)
  }

  /** A finite, non-negative number (all our durations). */
  f64(): number {
    const value = this.#view.getFloat64(this.#take(8), true)
    if (!Number.isFinite(value) || value < 0) this.fail(`number ${value} out of range`)
    return value
  }

  /** A count that the caller will loop over. */
  count(max: number): number {
    const value = this.u32()
    if (value > max) this.fail(`count ${value} exceeds ${max}`)
    return value
  }

  fixed(size: number): Uint8Array {
    const at = this.#take(size)
    return this.#bytes.slice(at, at + size)
  }

  bytes(sizeMax: number): Uint8Array {
    return this.fixed(this.count(sizeMax))
  }

  string(sizeMax: number): string {
    const size = this.u16()
    if (size > sizeMax) this.fail(`string of ${size} bytes exceeds ${sizeMax}`)
    return this.#text(this.#take(size), size)
  }

  /** Everything that is left, as text. */
  rest(sizeMax: number): string {
    const size = this.#bytes.length - this.#at
    if (size > sizeMax) this.fail(`string of ${size} bytes exceeds ${sizeMax}`)
    return this.#text(this.#take(size), size)
  }

  u32List(countMax: number): Uint32Array {
    const count = this.count(countMax)
    const at = this.#take(4 * count)
    const values = new Uint32Array(count)
    // Where they lie they need not be aligned.
    new Uint8Array(values.buffer).set(this.#bytes.subarray(at, at + 4 * count))
    return values
  }

  /** Nothing may follow: trailing bytes are a message that we misunderstood. */
  end(): void {
    const left = this.#bytes.length - this.#at
    if (left !== 0) this.fail(`${left} bytes too many`)
  }

  /** @throws ConnectorError ERR_KV_MESSAGE_INVALID, always. */
  fail(reason: string): never {
    throw new ConnectorError('ERR_KV_MESSAGE_INVALID', `${this.#where}: ${reason}`, {
      where: this.#where,
      reason,
    })
  }

  #take(size: number): number {
    const at = this.#at
    if (size > this.#bytes.length - at) this.fail(`ends after ${this.#bytes.length} bytes`)
    this.#at = at + size
    return at
  }

  #text(at: number, size: number): string {
    try {
      return decoder.decode(this.#bytes.subarray(at, at + size))
    } catch {
      return this.fail('text is not UTF-8')
    }
  }
}

function checkInteger(value: number, max: number): void {
  if (!Number.isInteger(value) || value < 0 || value > max) {
    throw new RangeError(`${value} is not an integer in 0..${max}`)
  }
}
