/**
 * Carries the AgentPeer interface over a message port, so that the peer of the agent suite can be
 * another process (`child_process.fork` with `serialization: 'advanced'`) or a worker thread. Calls are
 * answered in any order; errors keep their message and code. Not a protocol between engines.
 */
import type { AgentPeer } from './agent-peer.ts'

/** Either end. Messages survive a structured clone. */
export interface PeerPort {
  send(message: unknown): void
  onMessage(listener: (message: unknown) => void): void
}

type PeerMethod = Exclude<keyof AgentPeer, 'name'>
interface PeerCall {
  readonly call: number
  readonly method: PeerMethod
  readonly arguments: readonly unknown[]
}
type PeerAnswer = { readonly answer: number } & (
  | { readonly value: unknown }
  | { readonly error: { readonly message: string; readonly code: string | undefined } }
)
type PeerHello = { readonly peerName: string }

const methods: Record<PeerMethod, true> = {
  declareTable: true,
  metadata: true,
  readMemory: true,
  writeMemory: true,
  expectNotifications: true,
  watchMemory: true,
  takeNotifications: true,
  connect: true,
  notify: true,
  reset: true,
  close: true,
}

/** In the peer's process: says hello, then answers calls until the port is gone. */
export function servePeer(peer: AgentPeer, port: PeerPort): void {
  port.onMessage((message) => {
    const { call, method, arguments: given } = message as PeerCall
    if (!Object.hasOwn(methods, method)) throw new TypeError(`unknown method ${method}`)
    const perform = peer[method] as (...given: readonly unknown[]) => Promise<unknown>
    perform(...given).then(
      (value) => port.send({ answer: call, value } satisfies PeerAnswer),
      (error: Error & { code?: string }) =>
        port.send({
          answer: call,
          error: { message: error.message, code: error.code },
        } satisfies PeerAnswer),
    )
  })
  port.send({ peerName: peer.name } satisfies PeerHello)
}

/** In the suite's process: resolves when the peer said hello. Calls to a dead peer never settle. */
export function connectPeer(port: PeerPort): Promise<AgentPeer> {
  const pending = new Map<number, (answer: PeerAnswer) => void>()
  let nextCall = 1
  const perform = async (method: PeerMethod, given: readonly unknown[]): Promise<unknown> => {
    const call = nextCall
    nextCall += 1
    const answer = await new Promise<PeerAnswer>((resolve) => {
      pending.set(call, resolve)
      port.send({ call, method, arguments: given } satisfies PeerCall)
    })
    if ('error' in answer) {
      throw Object.assign(new Error(`peer: ${answer.error.message}`), { code: answer.error.code })
    }
    return answer.value
  }
  return new Promise((resolve) => {
    port.onMessage((message) => {
      if (typeof message !== 'object' || message === null) return
      if ('peerName' in message) {
        const entries = Object.keys(methods).map((method) => [
          method,
          (...given: unknown[]) => perform(method as PeerMethod, given),
        ])
        const { peerName } = message as PeerHello
        resolve({ ...Object.fromEntries(entries), name: peerName } as AgentPeer)
      } else if ('answer' in message) {
        const answer = message as PeerAnswer
        pending.get(answer.answer)?.(answer)
        pending.delete(answer.answer)
      }
    })
  })
}
