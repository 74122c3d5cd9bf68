/**
 * One host process's life: told by the shim what to serve, it opens everything, says that it is ready (or
 * what refuses), serves steps, and ends when the engine does: by the socket's end, by a signal, or because
 * its parent is gone. Called by main.ts; ends with an exit code, and leaves nothing behind.
 */
import { ConnectorError, type Logger } from '@kvferry/connector-api'
import { createLogger, createSystemClock } from '@kvferry/runtime'
import { createAfterEngine, type EngineWord } from './arrival-order.ts'
import { HostCore } from './host-core.ts'
import { bridgeLimits } from './limits.ts'
import type { HostMessage, ShimMessage, StartMessage } from './messages.ts'
import { openHost, type OpenHost } from './open-host.ts'
import { ShimLink } from './shim-link.ts'

export interface HostOptions {
  /** Its end of the socket pair. */
  readonly socketFd: number
  /** Ends the host in order; main.ts connects it to signals and to the parent's death. */
  onStop(listener: (reason: string) => void): void
}

class Host {
  readonly exitCode: Promise<number>
  readonly #link: ShimLink
  readonly #clock = createSystemClock()
  #exit: (code: number) => void = () => {}
  #logger: Logger = createLogger({ name: 'kvferry-vllm-host' })
  #opening: Promise<void> | null = null
  #open: OpenHost | null = null
  #core: HostCore | null = null
  #isEnding = false

  constructor({ socketFd, onStop }: HostOptions) {
    this.exitCode = new Promise((resolve) => {
      this.#exit = resolve
    })
    const timeoutMs = bridgeLimits.startMessageTimeoutMs
    const timer = this.#clock.after(timeoutMs, () => {
      if (this.#opening === null) this.#end(1, `no start message in ${timeoutMs} ms`)
    })
    void this.exitCode.then(() => timer.stop())
    this.#link = ShimLink.ofDescriptor(socketFd, {
      onMessage: (message) => this.#onMessage(message),
      onEnd: (error) => this.#end(error === null ? 0 : 1, error?.message ?? 'the engine ended'),
    })
    onStop((reason) => this.#end(0, reason))
  }

  #onMessage(message: ShimMessage): void {
    switch (message.t) {
      case 'start':
        this.#opening ??= this.#start(message)
        return
      case 'step':
        this.#core?.step(message)
        return
      case 'saved':
        this.#core?.saved()
        return
      case 'ping':
        this.#send({ t: 'pong', counters: this.#core?.counters() ?? {} })
        return
    }
  }

  async #start(message: StartMessage): Promise<void> {
    this.#logger = createLogger({ name: 'kvferry-vllm-host', level: message.logLevel })
    try {
      const open = await openHost({
        start: message,
        clock: this.#clock,
        logger: this.#logger,
        requestStep: () => this.#core?.requestStep(),
        afterEngine: createAfterEngine(this.#engineWord()),
      })
      this.#open = open
      this.#core = new HostCore({
        ...open,
        clock: this.#clock,
        logger: this.#logger,
        send: (reply) => this.#send(reply),
        onBroken: (error) => this.#end(70, error.stack ?? error.message),
      })
      this.#send(readyMessage(open))
    } catch (error) {
      const text = refusalText(error)
      const name = error instanceof Error ? error.name : 'Error'
      const code = ConnectorError.isInstance(error) ? error.code : name
      this.#send({ t: 'refused', code, message: `${code}: ${text}` })
      this.#end(1, text)
    }
  }

  #engineWord(): EngineWord {
    const link = this.#link
    return {
      get receivedBytes() {
        return link.receivedBytes
      },
      played: () => this.#core?.played() ?? Promise.resolve(),
    }
  }

  #send(message: HostMessage): void {
    this.#link.send(message)
  }

  #end(code: number, reason: string): void {
    if (this.#isEnding) return
    this.#isEnding = true
    if (code === 0) this.#logger.info('ending', { reason })
    else this.#logger.error('ending', { reason })
    void this.#close(code)
  }

  async #close(code: number): Promise<void> {
    // What is being opened is opened to its end, so that it can be closed.
    await this.#opening
    await this.#core?.close()
    await this.#open?.close()
    this.#link.close()
    this.#exit(code)
  }
}

/** vLLM's settings that take the place of ours; whoever reads a refusal looks for these. */
const vllmNames: ReadonlyMap<unknown, string> = new Map([
  ['engineId', 'engine_id'],
  ['role', 'kv_role'],
  ['loadFailurePolicy', 'kv_load_failure_policy'],
])

function refusalText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const isConfig = ConnectorError.isInstance(error) && error.code === 'ERR_KV_CONFIG'
  const name = isConfig ? vllmNames.get(error.details.field) : undefined
  return name === undefined ? error.message : `${error.message} (vLLM's ${name})`
}

function readyMessage({ config, incarnation, metadata, address }: OpenHost): HostMessage {
  const { recomputeThreshold, progressive, ...options } = config.options
  // Xavier's names for the same: how long blocks are kept for nobody, how long a load waits.
  const leaseMs = options['leaseDurationMs'] ?? options['unclaimedTicketMs']
  const waitMs = options['registrationTimeoutMs'] ?? options['loadTimeoutMs']
  return {
    t: 'ready',
    incarnation,
    connector: config.connector,
    sideChannel: { host: address.host, port: address.port },
    metadata: Buffer.from(metadata).toString('hex'),
    leaseMs: Number(leaseMs),
    recomputeThreshold: Number(recomputeThreshold),
    isProgressive: progressive === true,
    registrationTimeoutMs: Number(waitMs ?? 0),
  }
}

/** Serves one engine to its end. Resolves with the exit code. */
export function runHost(options: HostOptions): Promise<number> {
  return new Host(options).exitCode
}
