/** What a table of tickets needs of its surroundings. */
import type { AnyConnectorError, HistoryOffer } from '@kvferry/connector-api'
import type { WriteTableOptions } from '@kvferry/connector-api/remote-writes'
import type { XavierOptions } from './options.ts'
import type { TicketPart, TicketRecord } from './ticket-record.ts'
import type { TicketContext } from './ticket-state.ts'
import type { XavierCounters } from './xavier-counters.ts'

export interface TicketTableOptions extends Omit<WriteTableOptions<TicketPart>, 'onPartEnd'> {
  readonly counters: XavierCounters
  readonly options: XavierOptions
  /**
   * Offers released blocks to history; null when it is off. What it returns is waited for before the blocks
   * go back; null: nothing is copied. Neither throws nor rejects.
   */
  readonly retain: ((offer: HistoryOffer) => Promise<void> | null) | null
  /** Prepares blocks for their reader; resolves with why they can't be read, or null. Null: they can at once. */
  readonly publish: ((blockIds: Uint32Array) => Promise<AnyConnectorError | null>) | null
  /** After a ticket began or ended. */
  readonly onChange: () => void
}

export const contextOf = (
  { options, retain }: TicketTableOptions,
  { keys }: TicketRecord,
): TicketContext => ({
  unclaimedMs: options.unclaimedTicketMs,
  claimedMs: options.claimedTicketMs,
  isRetained: retain !== null && keys.length > 0,
})
