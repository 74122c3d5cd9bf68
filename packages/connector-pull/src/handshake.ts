/**
 * The three steps of a handshake as the consumer performs them, each one promise that yields the
 * connection machine's next event. They decide nothing: connection-state.ts does.
 */
import type { Association, TransferAgent, WorkerComponents } from '@kvferry/connector-api'
import type { ConnectionEvent } from './connection-state.ts'
import type { PeerFacts } from './facts.ts'
import {
  decodeHandshakeReply,
  encodeHandshakeRequest,
  messageKinds,
  type HandshakeGrant,
} from './messages.ts'
import type { RemoteRequest } from './metadata.ts'

/** @throws ConnectorError as `SideChannel.connect`. */
export async function associate(
  { sideChannel }: WorkerComponents,
  { host, port, engineId }: RemoteRequest,
  timeoutMs: number,
): Promise<ConnectionEvent> {
  const association = await sideChannel.connect({ host, port, engineId }, { timeoutMs })
  return { kind: 'associate-end', association }
}

/** @throws ConnectorError as `Association.request`; ERR_KV_MESSAGE_INVALID, ERR_KV_PEER_INCOMPATIBLE. */
export async function exchange(
  association: Association,
  facts: PeerFacts,
  timeoutMs: number,
): Promise<ConnectionEvent> {
  const body = encodeHandshakeRequest(facts)
  const answer = await association.request(messageKinds.handshake, body, { timeoutMs })
  const reply = decodeHandshakeReply(answer, association.peer.engineId)
  return { kind: 'exchange-end', reply }
}

/** @throws ConnectorError as `TransferAgent.addPeer` and `importBlockTable`; then no peer is left. */
export async function addPeer(
  agent: TransferAgent,
  association: Association,
  grant: HandshakeGrant,
): Promise<ConnectionEvent> {
  const peer = await agent.addPeer({
    metadata: grant.agentMetadata,
    expectedName: grant.agentName,
  })
  try {
    const table = agent.importBlockTable(peer, grant.blockTable)
    const { blockCount } = agent.describeBlockTable(table)
    const { token } = grant
    return { kind: 'add-end', link: { association, peer, table, blockCount, token } }
  } catch (cause) {
    await agent.removePeer(peer)
    throw cause
  }
}
