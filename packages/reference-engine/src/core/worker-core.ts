/**
 * The core's thread as the HTTP side sees it. Starts the worker, waits until it serves, passes requests in
 * and events out. A worker that ends on its own is fatal: nothing is restarted behind a caller's back.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { ConnectorError } from '@kvferry/connector-api'
import type { Clock, Timer } from '@kvferry/connector-api'
import type { LogLevel } from '@kvferry/runtime'
import { engineLimits } from '../limits.ts'
import type {
  CoreClient,
  CoreConfig,
  CoreListener,
  DebugView,
  EngineStats,
  PeerView,
} from './core-messages.ts'
import { fromPlainError, type FromCore, type Question, type ToCore } from './worker-messages.ts'

export interface WorkerCoreOptions {
  readonly config: CoreConfig
  readonly logLevel: LogLevel
  readonly clock: Clock
  /** Another worker file; for tests of this class. */
  readonly workerFile?: string
}

/** Beside this module when built; in the package's build when this is a source file under test. */
function workerPath(): string {
  const places = ['./core-worker.js', '../../dist/core-worker.js']
  const paths = places.map((place) => fileURLToPath(new URL(place, import.meta.url)))
  const found = paths.find((path) => existsSync(path))
  if (found !== undefined) return found
  throw new Error(`the engine is not built: no ${paths.join(' and no ')}`)
}

interface Asked {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly timer: Timer
}

class WorkerCore implements CoreClient {
  readonly peer: PeerView
  readonly #worker: Worker
  readonly #clock: Clock
  readonly #asked = new Map<number, Asked>()
  readonly #exited: Promise<void>
  #nextId = 1
  #listener: CoreListener | null = null
  #closing: Promise<void> | null = null
  #onClosed: (() => void) | null = null
  #fatal: Error | null = null

  constructor(worker: Worker, peer: PeerView, clock: Clock) {
    this.peer = peer
    this.#worker = worker
    this.#clock = clock
    worker.on('message', (message: FromCore) => this.#receive(message))
    worker.on('error', (error) => this.#fail(error))
    this.#exited = new Promise((resolve) => {
      worker.once('exit', (code) => {
        if (this.#closing === null) this.#fail(new Error(`the core's thread ended with ${code}`))
        resolve()
      })
    })
  }

  setListener(listener: CoreListener): void {
    this.#listener = listener
    if (this.#fatal !== null) listener.onFatal(this.#fatal)
  }

  submit(submit: Parameters<CoreClient['submit']>[0]): void {
    this.#send({ kind: 'submit', submit })
  }

  abort(requestId: string): void {
    this.#send({ kind: 'abort', requestId })
  }

  stats(): Promise<EngineStats> {
    return this.#ask('stats') as Promise<EngineStats>
  }

  metricsText(): Promise<string> {
    return this.#ask('metrics') as Promise<string>
  }

  debug(): Promise<DebugView> {
    return this.#ask('debug') as Promise<DebugView>
  }

  close(options: { readonly deadlineMs: number }): Promise<void> {
    this.#closing ??= this.#close(options.deadlineMs)
    return this.#closing
  }

  async #close(deadlineMs: number): Promise<void> {
    const isClosed = new Promise<void>((resolve) => {
      this.#onClosed = resolve
    })
    this.#send({ kind: 'close', deadlineMs })
    // The core keeps the deadline itself; a thread that doesn't is ended.
    const waitMs = deadlineMs + engineLimits.terminateAfterMs
    let timer: Timer | null = null
    const isLate = new Promise<'late'>((resolve) => {
      timer = this.#clock.after(waitMs, () => resolve('late'))
    })
    const graceful = Promise.all([isClosed, this.#exited]).then(() => 'ended' as const)
    const outcome = await Promise.race([
      graceful,
      isLate,
      this.#exited.then(() => 'ended' as const),
    ])
    ;(timer as Timer | null)?.stop()
    if (outcome === 'late') await this.#worker.terminate()
    this.#rejectAsked(new ConnectorError('ERR_KV_CLOSED', 'the engine ended', { what: 'engine' }))
  }

  #ask(question: Question): Promise<unknown> {
    const max = engineLimits.coreQuestionCountMax
    if (this.#fatal !== null) return Promise.reject(this.#fatal)
    if (this.#asked.size >= max) {
      const details = { limit: 'coreQuestionCountMax', value: this.#asked.size + 1, max }
      return Promise.reject(new ConnectorError('ERR_KV_LIMIT', 'too many questions', details))
    }
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      const deadlineMs = engineLimits.coreAnswerTimeoutMs
      const timer = this.#clock.after(deadlineMs, () => {
        this.#asked.delete(id)
        const details = { what: question, deadlineMs }
        reject(new ConnectorError('ERR_KV_DEADLINE', `no ${question} from the core`, details))
      })
      this.#asked.set(id, { resolve, reject, timer })
      this.#send({ kind: 'ask', id, question })
    })
  }

  #receive(message: FromCore): void {
    switch (message.kind) {
      case 'events':
        this.#listener?.onEvents(message.events)
        return
      case 'answer': {
        const asked = this.#asked.get(message.id)
        this.#asked.delete(message.id)
        asked?.timer.stop()
        asked?.resolve(message.value)
        return
      }
      case 'fatal':
        this.#fail(fromPlainError(message.error))
        return
      case 'closed':
        this.#onClosed?.()
        return
      case 'ready':
      case 'refused':
        return
    }
  }

  #fail(error: Error): void {
    if (this.#fatal !== null) return
    this.#fatal = error
    this.#rejectAsked(error)
    this.#listener?.onFatal(error)
  }

  #rejectAsked(error: Error): void {
    for (const asked of this.#asked.values()) {
      asked.timer.stop()
      asked.reject(error)
    }
    this.#asked.clear()
  }

  #send(message: ToCore): void {
    this.#worker.postMessage(message)
  }
}

/** @throws ConnectorError what the core refused, ERR_KV_DEADLINE; Error when the package is not built. */
export async function startWorkerCore(options: WorkerCoreOptions): Promise<CoreClient> {
  const { clock, config, logLevel } = options
  const worker = new Worker(options.workerFile ?? workerPath(), {
    workerData: { config, logLevel },
    // The core runs the built files whatever flags (import conditions, inspectors) the program was given.
    execArgv: [],
  })
  try {
    return new WorkerCore(worker, await untilReady(worker, clock), clock)
  } catch (error) {
    await worker.terminate()
    throw error
  }
}

function untilReady(worker: Worker, clock: Clock): Promise<PeerView> {
  const deadlineMs = engineLimits.startDeadlineMs
  return new Promise((resolve, reject) => {
    // Each by name: `removeAllListeners` would also take Node's own ones, which start the message port.
    const settle = (end: () => void): void => {
      timer.stop()
      worker.off('error', fail).off('exit', onExit).off('message', onMessage)
      end()
    }
    const fail = (error: Error): void => settle(() => reject(error))
    const onExit = (code: number): void =>
      fail(new Error(`the core's thread ended with ${code} at start`))
    const onMessage = (message: FromCore): void => {
      if (message.kind === 'ready') settle(() => resolve(message.peer))
      else if (message.kind === 'refused') fail(fromPlainError(message.error))
    }
    const timer = clock.after(deadlineMs, () => {
      const details = { what: 'start', deadlineMs }
      fail(new ConnectorError('ERR_KV_DEADLINE', 'the core did not start in time', details))
    })
    worker.on('error', fail).on('exit', onExit).on('message', onMessage)
  })
}
