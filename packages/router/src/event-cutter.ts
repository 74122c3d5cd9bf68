/**
 * Cuts a stream of server-sent events at event boundaries without changing a byte, so that a stream
 * which breaks off never ends inside an event, and knows whether the stream came to its proper end.
 * Pure (its state is its own); used by the decode leg.
 */
import { routerLimits } from './limits.ts'

const empty = Buffer.alloc(0)
/** Enough for the last event of any stream: `[DONE]`, or an error object. */
const tailSizeBytesMax = 65_536

/** Index after the last blank line, 0 when there is none. Engines write LF; CRLF is as valid. */
function lastBoundary(bytes: Buffer): number {
  const lf = bytes.lastIndexOf('\n\n')
  const crlf = bytes.lastIndexOf('\n\r\n')
  return Math.max(lf === -1 ? 0 : lf + 2, crlf === -1 ? 0 : crlf + 3)
}

export class EventCutter {
  #held: Buffer = empty
  #lastWhole: Buffer = empty
  #isInsideEvent = false

  /** The bytes that may be passed on now; empty while an event is incomplete. */
  push(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    const end = lastBoundary(bytes)
    const isTooLongToHold = bytes.length - end > routerLimits.heldEventSizeBytesMax
    const cut = isTooLongToHold ? bytes.length : end
    this.#held = bytes.subarray(cut)
    if (cut === 0) return empty
    this.#isInsideEvent = isTooLongToHold
    const whole = bytes.subarray(0, cut)
    // A comment (keep-alive) after `[DONE]` says nothing about the end.
    if (whole.includes('data:')) this.#lastWhole = whole.subarray(-tailSizeBytesMax)
    return whole
  }

  /** What is still held when the stream has ended by itself: passed on as it is. */
  takeRest(): Buffer {
    const rest = this.#held
    this.#held = empty
    if (rest.length > 0) {
      this.#lastWhole = Buffer.concat([this.#lastWhole, rest])
      this.#isInsideEvent = true
    }
    return rest
  }

  /** Whether an event of ours has to be set apart from a half one by a blank line. */
  get isInsideEvent(): boolean {
    return this.#isInsideEvent
  }

  /** The stream's last event is `[DONE]`, or an error object with which the engine ended it. */
  get hasEnded(): boolean {
    const last = this.#lastData().at(-1)
    return last !== undefined && (last === '[DONE]' || isErrorObject(last))
  }

  /** The engine's last word was an error object; vLLM writes `[DONE]` after it all the same. */
  get hasFailed(): boolean {
    const word = this.#lastData().findLast((data) => data !== '[DONE]')
    return word !== undefined && isErrorObject(word)
  }

  /** The data of the last two events that have any. */
  #lastData(): string[] {
    const events = this.#lastWhole.toString('utf8').split(/\r?\n\r?\n/)
    return events
      .filter((event) => /^data:/m.test(event))
      .slice(-2)
      .map((event) =>
        event
          .split(/\r?\n/)
          .filter((line) => line.startsWith('data:'))
          .map((line) => line.slice('data:'.length).trim())
          .join('\n'),
      )
  }
}

function isErrorObject(data: string): boolean {
  try {
    const parsed: unknown = JSON.parse(data)
    return typeof parsed === 'object' && parsed !== null && 'error' in parsed
  } catch {
    return false
  }
}

/** The event with which a stream that cannot go on is ended. Never followed by `[DONE]`. */
export function errorEvent(body: unknown, isInsideEvent: boolean): string {
  return `${isInsideEvent ? '\n\n' : ''}data: ${JSON.stringify(body)}\n\n`
}
