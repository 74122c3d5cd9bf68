/**
 * Runs one handler for one message and sorts what comes out of it: an answer, a typed refusal, a refusal
 * that hides an unexpected exception (which is logged), or a broken invariant, which stops the process.
 */
import {
  ConnectorError,
  InvariantError,
  type AnyConnectorError,
  type Association,
  type Logger,
  type SideChannelHandler,
} from '@kvferry/connector-api'

export interface HandlerRun {
  readonly handler: SideChannelHandler
  readonly kind: string
  readonly body: Uint8Array
  readonly from: Association
  readonly logger: Logger
  onAnswered(body: Uint8Array): void
  onRefused(error: AnyConnectorError): void
}

/**
 * What the peer is told of an exception that isn't a ConnectorError. Such exceptions come from reading the
 * body, so it is called invalid: a code that no caller repeats. The exception itself stays in our log.
 */
function hiddenError(kind: string): AnyConnectorError {
  const reason = `the handler of ${kind} failed`
  return new ConnectorError('ERR_KV_MESSAGE_INVALID', reason, {
    where: 'side-channel-message',
    reason,
  })
}

/** Lets an exception out of the promise chain, where nothing catches it. */
function stopProcess(error: unknown): void {
  queueMicrotask(() => {
    throw error
  })
}

async function run({ handler, body, from }: HandlerRun): Promise<Uint8Array> {
  const answer: unknown = await handler(body, from)
  if (!(answer instanceof Uint8Array)) throw new TypeError('a handler must return a Uint8Array')
  return answer
}

export function runHandler(options: HandlerRun): void {
  run(options)
    .then(options.onAnswered, (error: unknown) => {
      if (error instanceof InvariantError) throw error
      if (ConnectorError.isInstance(error)) return options.onRefused(error)
      const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
      options.logger.error('side-channel handler failed', { kind: options.kind, stack })
      options.onRefused(hiddenError(options.kind))
    })
    .catch(stopProcess)
}
