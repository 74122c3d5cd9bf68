/**
 * The three steps of a handshake as the consumer performs them, each one promise that yields the
 * connection machine's next event. They decide nothing: connection-state.ts does.
 */
import type {
  Association,
  PeerAddress,
  SideChannel,
  TransferAgent,
  WorkerComponents,
} from '@kvferry/connector-api'
import { type PeerFacts, PeerClock, asOtherConnector } from '@kvferry/connector-api/protocol'
import type { ConnectionEvent } from './connection-state.ts'
import { pullIdentity } from './identity.ts'
import {
  decodeHandshakeReply,
  encodeHandshakeRequest,
  messageKinds,
  type HandshakeGrant,
  type HandshakeRequest,
} from './messages.ts'

/** @throws ConnectorError as `SideChannel.connect`. */
export async function associate(
  sideChannel: SideChannel,
  address: PeerAddress,
  timeoutMs: number,
): Promise<ConnectionEvent> {
  const association = await sideChannel.connect(address, { timeoutMs })
  return { kind: 'associate-end', association }
}

/** @throws ConnectorError as `Association.request`; ERR_KV_MESSAGE_INVALID, ERR_KV_PEER_INCOMPATIBLE. */
export async function exchange(
  { clock }: WorkerComponents,
  association: Association,
  own: HandshakeRequest,
  timeoutMs: number,
): Promise<ConnectionEvent> {
  const body = encodeHandshakeRequest(own)
  const sentAt = clock.now()
  const answer = await association
    .request(messageKinds.handshake, body, { timeoutMs })
    .catch((cause: unknown) => {
      const { engineId } = association.peer
      throw asOtherConnector(cause, { connector: pullIdentity.name, engineId })
    })
  const receivedAt = clock.now()
  const reply = decodeHandshakeReply(answer, association.peer.engineId)
  const { grant } = reply
  const peerClock =
    grant === null ? null : new PeerClock({ sentAt, receivedAt, remoteMs: grant.clockMs })
  return { kind: 'exchange-end', reply, clock: peerClock }
}

/** `rank`: of the producer. @throws ConnectorError as `TransferAgent.addPeer` and `importBlockTable`; then no peer is left. */
export async function addPeer(
  agent: TransferAgent,
  rank: number,
  agreed: {
    readonly association: Association
    readonly facts: PeerFacts
    readonly grant: HandshakeGrant
    readonly clock: PeerClock
  },
): Promise<ConnectionEvent> {
  const { association, clock, facts, grant } = agreed
  const peer = await agent.addPeer({
    metadata: grant.agentMetadata,
    expectedName: grant.agentName,
  })
  try {
    const table = agent.importBlockTable(peer, grant.blockTable)
    const { blockCount } = agent.describeBlockTable(table)
    const { token, handoffKey, leaseDurationMs, isStaged } = grant
    const keys = { token, handoffKey, leaseDurationMs, isStaged, clock, facts, rank }
    return { kind: 'add-end', link: { association, peer, table, blockCount, ...keys } }
  } catch (cause) {
    await agent.removePeer(peer)
    throw cause
  }
}
