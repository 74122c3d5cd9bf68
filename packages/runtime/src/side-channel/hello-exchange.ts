/**
 * Turns a fresh connection into an admitted peer, or into a refusal that both sides understand: the caller
 * says hello, the called one judges it and answers, the caller judges the answer. Ends within its
 * deadline in exactly one of `onOpen` and `onFailed`; `onOpen` is called from inside the event of the
 * peer's hello, so that frames right behind it meet the association.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Clock,
  type EngineId,
  type PeerIdentity,
} from '@kvferry/connector-api'
import type { Connection } from './connection.ts'
import { encodeFrame, invalidFrame, type Frame } from './frame.ts'
import { encodeHello, judgeHello, type AdmissionPolicy } from './hello.ts'
import { noAnswer, peerUnavailable } from './peer-errors.ts'
import { decodeRefusal, farewell } from './refusal.ts'

export type HelloSide =
  { readonly kind: 'caller'; readonly expected: EngineId | null } | { readonly kind: 'called' }

export interface HelloExchange {
  readonly connection: Connection
  /** Whom the peer's certificate names; null without certificates. */
  readonly certified: EngineId | null
  readonly policy: AdmissionPolicy
  /** Name of the peer in errors. */
  readonly peerName: string
  /** `caller` speaks first, and may expect a certain engine. */
  readonly side: HelloSide
  readonly clock: Clock
  readonly timeoutMs: number
  onOpen(peer: PeerIdentity): void
  /** The connection is ending or gone. `isOurs`: we refused, so it counts as a refused message. */
  onFailed(error: AnyConnectorError, isOurs: boolean): void
}

export function exchangeHellos(exchange: HelloExchange): void {
  const { connection, certified, policy, peerName, side, clock, timeoutMs } = exchange
  const ownHello = encodeFrame('hello', { body: encodeHello(policy.identity) })
  let isSettled = false

  const fail = (error: AnyConnectorError, isOurs: boolean): void => {
    if (isSettled) return
    isSettled = true
    timer.stop()
    if (isOurs) connection.leave(farewell(error))
    else connection.destroy()
    exchange.onFailed(error, isOurs)
  }

  const onHello = (frame: Frame): void => {
    const expectedEngineId = side.kind === 'caller' ? side.expected : null
    const { remoteHost } = connection
    const context = { remoteHost, expectedEngineId, certifiedEngineId: certified }
    const verdict = judgeHello(frame.body, policy, context)
    if (ConnectorError.isInstance(verdict)) return fail(verdict, true)
    isSettled = true
    timer.stop()
    if (side.kind === 'called') connection.write(ownHello)
    exchange.onOpen(verdict)
  }

  const timer = clock.after(timeoutMs, () => {
    fail(noAnswer(`hello of engine ${peerName}`, timeoutMs), true)
  })

  connection.setListener({
    onFrame(frame) {
      if (frame.type === 'hello') onHello(frame)
      else if (frame.type === 'refusal') fail(decodeRefusal(frame.body), false)
      else fail(invalidFrame(`${frame.type} before hello`), true)
    },
    onMalformed: (error) => fail(error, true),
    onClosed: (cause) => fail(peerUnavailable(peerName, 'hung up before its hello', cause), false),
  })
  if (side.kind === 'caller') connection.write(ownHello)
}
