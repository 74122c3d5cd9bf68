/**
 * The consumer's two questions about a registration, over the side channel: take it on, and write no more.
 * Each turns every answer, and every silence, into the registration machine's event. Called by
 * load-table.ts.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type PeerIdentity,
  type ProcessIdentity,
  type WorkerComponents,
} from '../index.ts'
import { asConnectorError, type PeerFacts } from '../protocol/index.ts'
import { blocksOf, runOf, type PartRecord } from './load-record.ts'
import {
  decodeRegisterReply,
  decodeWithdrawReply,
  encodeRegistration,
  encodeWithdraw,
  kindOf,
  type WithdrawReply,
} from './messages.ts'
import type { RegistrationEvent } from './registration-state.ts'

/** The consumer rank that asks. */
export interface Speaker {
  /** The protocol's name. */
  readonly protocol: string
  readonly components: WorkerComponents
  readonly rank: number
  readonly facts: PeerFacts
}

/** Never rejects. */
export async function register(
  { protocol, rank, facts }: Speaker,
  { link, load, loadId }: PartRecord,
): Promise<RegistrationEvent> {
  const { association, identity, rank: producerRank } = link!
  const { order } = load
  const { transferId, prompt, tokenEnd } = order
  try {
    const body = encodeRegistration({
      ...{ rank, loadId, transferId, tokenCount: tokenEnd, promptDigest: prompt.digest },
      firstToken: runOf(order, facts.blockTokens).firstToken,
      blockIds: blocksOf(order),
    })
    const answer = await association.request(kindOf(protocol, 'register', producerRank), body)
    const refusal = decodeRegisterReply(answer, identity.engineId, order.requestId)
    return refusal === null ? { kind: 'accept' } : { kind: 'refuse', error: refusal }
  } catch (cause) {
    // Whatever went wrong here, the producer may have taken it on.
    return silence(cause, 'register', identity)
  }
}

/** Never rejects. */
export async function withdraw(
  { protocol, components, rank }: Speaker,
  { link, load, loadId }: PartRecord,
): Promise<RegistrationEvent> {
  const { address, identity, process, rank: producerRank } = link!
  const hasEnded = process === null ? null : (components.processes?.hasEnded(process) ?? null)
  if (hasEnded === true) return writerEnd(components, process!)
  const kind = kindOf(protocol, 'withdraw', producerRank)
  const body = encodeWithdraw({ rank, loadId, transferId: load.order.transferId })
  try {
    const association = await components.sideChannel.connect(address)
    const { incarnation } = association.peer
    if (incarnation !== identity.incarnation) {
      // On another machine a new life of the engine is the proof; on this one its process is.
      if (hasEnded === null) return await writerEnd(components, process)
      return { kind: 'silence', error: wrongEpoch(identity, association.peer) }
    }
    const reply = decodeWithdrawReply(await association.request(kind, body), identity.engineId)
    return withdrawEvents[reply]
  } catch (cause) {
    return silence(cause, 'withdraw', identity)
  }
}

const withdrawEvents: Readonly<Record<WithdrawReply, RegistrationEvent>> = {
  withdrawn: { kind: 'withdraw-end' },
  written: { kind: 'write-end' },
  pending: { kind: 'withdraw-pending' },
}

/** What it wrote by slabs may lie in our agent still: its blocks are ours again once that is dropped. */
async function writerEnd(
  { agent }: WorkerComponents,
  process: ProcessIdentity | null,
): Promise<RegistrationEvent> {
  // An agent that is closed or broken puts nothing in place any more either.
  if (process !== null) await agent.processEnded(process).catch(() => undefined)
  return { kind: 'writer-end' }
}

function silence(cause: unknown, operation: string, { engineId }: PeerIdentity): RegistrationEvent {
  return { kind: 'silence', error: asConnectorError(cause, { operation, peer: engineId }) }
}

function wrongEpoch(
  { engineId, incarnation: expected }: PeerIdentity,
  { incarnation: actual }: PeerIdentity,
): AnyConnectorError {
  const message = `${engineId} has begun another life, and its former one has not ended`
  return new ConnectorError('ERR_KV_WRONG_EPOCH', message, { engineId, expected, actual })
}
