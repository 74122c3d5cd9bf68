/**
 * Tickets of one life of a producer: HMAC-SHA256 under a key of this life over the request's number and id, cut
 * to 128 bits. Nobody without the key guesses one, and whoever has to answer in the scheduler half's
 * place (the vLLM bridge) makes the same. Called by producer-requests.ts.
 */
import { createHmac } from 'node:crypto'
import type { RequestId } from '@kvferry/connector-api'
import { ticketOf, type Ticket } from './handoff.ts'
import { xavierLimits } from './limits.ts'

export class TicketMaker {
  readonly #key: Uint8Array
  #count = 0

  constructor(key: Uint8Array) {
    this.#key = key
    // The first HMAC loads Node's crypto, which takes milliseconds: now, and in no step.
    createHmac('sha256', key).digest()
  }

  /** Another one each time: ids come again. */
  make(requestId: RequestId): Ticket {
    const number = Buffer.alloc(8)
    number.writeBigUInt64LE(BigInt(this.#count++))
    const bits = createHmac('sha256', this.#key).update(number).update(requestId, 'utf8').digest()
    return ticketOf(bits.subarray(0, xavierLimits.ticketSizeBytes))
  }
}
