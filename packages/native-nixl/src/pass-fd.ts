/**
 * Open descriptors from process to process, over a connected unix socket that both inherited or opened
 * (SCM_RIGHTS): how an engine's memory reaches the process that moves it. Used once per memory, at start;
 * so it asks again in short pauses instead of keeping a thread, and the JS thread never waits. The socket
 * is a plain descriptor that nothing else reads from or writes to meanwhile: Node's own sockets drop
 * descriptors.
 */
import { ConnectorError } from '@kvferry/connector-api'
import { loadBinding } from './load-binding.ts'
import { callNative } from './nixl-error.ts'
import { bytes, deadline } from './post-list.ts'

/** Between two attempts. Start-up waits for nothing shorter, and an attempt costs a microsecond. */
const attemptPauseMs = 2

export interface ReceivedFd {
  /** Open, closed on exec; the receiver's to close. */
  readonly fd: number
  /** What the sender said about it, 1 to 256 bytes. */
  readonly message: Uint8Array
}

/**
 * Takes one descriptor and the message that came with it. Messages come in order, one descriptor each.
 * @throws RangeError when `socketFd` is no connected unix socket; ConnectorError ERR_KV_DEADLINE (nothing
 *   came), ERR_KV_CLOSED (the other end is gone), ERR_KV_MESSAGE_INVALID (not exactly one descriptor, or
 *   no or too many bytes; whatever came is closed).
 */
export async function receiveFd(
  socketFd: number,
  options: { readonly timeoutMs: number },
): Promise<ReceivedFd> {
  const binding = loadBinding()
  return attempt('receiveFd', options.timeoutMs, () => binding.tryReceiveFd(socketFd))
}

/**
 * Sends a descriptor; the sender's own stays open. Resolves once it is on its way, not once it arrived.
 * @throws RangeError when `socketFd` is no connected unix socket or `fd` isn't open, or for a message that
 *   is empty or over 256 bytes; ConnectorError ERR_KV_DEADLINE (no room), ERR_KV_CLOSED.
 */
export async function sendFd(
  socketFd: number,
  fd: number,
  options: { readonly timeoutMs: number; readonly message?: Uint8Array },
): Promise<void> {
  const binding = loadBinding()
  const message = bytes(options.message ?? Uint8Array.of(0), 'message')
  await attempt('sendFd', options.timeoutMs, () => binding.trySendFd(socketFd, fd, message) || null)
}

/** Runs `run` until it answers something, or until the deadline. */
async function attempt<T>(operation: string, timeoutMs: number, run: () => T | null): Promise<T> {
  const deadlineMs = deadline(timeoutMs)
  const end = performance.now() + deadlineMs
  for (;;) {
    const answer = callNative({ operation }, run)
    if (answer !== null) return answer
    if (performance.now() >= end) break
    await new Promise((resolve) => setTimeout(resolve, attemptPauseMs))
  }
  const message = `${operation}: nothing happened within ${deadlineMs} ms`
  throw new ConnectorError('ERR_KV_DEADLINE', message, { what: operation, deadlineMs })
}
