/**
 * Whether an answer reached its caller, as far as TCP says: a connection that closed before all of it was
 * written, or was reset after it, took it nowhere. What a proxy took and lost is not seen from here, nor what a
 * caller read and had no time to use; nor, of one that closes in order as its answer is written, whether it read it.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Of the last answer on a connection: ends its watch. */
const endsOfWatch = new WeakMap<Socket, () => void>()

/** Calls `onLost` at most once: now, when the connection closes, or when it is reset before its next request. */
export function watchDelivery(response: ServerResponse, onLost: () => void): void {
  const { socket } = response
  if (socket === null || socket.destroyed) return onLost()
  let isOver = false
  const lose = (): void => {
    if (!isOver) onLost()
    isOver = true
  }
  response.once('close', lose)
  response.once('finish', () => {
    response.off('close', lose)
    const onClose = (wasReset: boolean): void => {
      if (wasReset) lose()
    }
    endWatch(socket)
    endsOfWatch.set(socket, () => socket.off('close', onClose))
    socket.once('close', onClose)
  })
}

/** A caller reads in order: by its next request it has the answer before. */
export function endWatch(socket: Socket): void {
  endsOfWatch.get(socket)?.()
  endsOfWatch.delete(socket)
}
